"""The OAuthApi over HTTP."""

from __future__ import annotations

from urllib.parse import quote

from knowledge.engine.remote.http import EngineClient
from knowledge.errors import Internal
from knowledge.model import Json
from knowledge.model.oauth import (
    ActiveToken,
    CodeExchange,
    ForeignSubject,
    IssuedTokens,
    NewOAuthGrant,
    OAuthClient,
    OAuthGrant,
    OAuthLogin,
    RefreshExchange,
)
from knowledge.wire.adapters import dump
from knowledge.wire.oauth import (
    FoundClientShape,
    FoundLoginShape,
    FoundTokenShape,
    IssuedTokensShape,
    OAuthGrantsShape,
    OAuthSecretShape,
    RevokedGrantsShape,
)

PATH = "/admin/oauth"


class RemoteOAuth:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def register_client(self, name: str, redirect_uris: tuple[str, ...]) -> OAuthClient:
        body: Json = {"name": name, "redirect_uris": [*redirect_uris]}
        found = await self._client.call(FoundClientShape, "POST", f"{PATH}/clients", json=body)
        if found.client is None:
            raise Internal("The engine returned no client")
        return found.client

    async def find_client(self, client_id: str) -> OAuthClient | None:
        body: Json = {"client_id": client_id}
        path = f"{PATH}/clients/find"
        return (await self._client.call(FoundClientShape, "POST", path, json=body, idempotent=True)).client

    async def log_in(self, username: str, password: str) -> OAuthLogin:
        return await self._log_in({"username": username, "password": password})

    async def log_in_by_key(self, key: str) -> OAuthLogin:
        return await self._log_in({"api_key": key})

    async def _log_in(self, body: Json) -> OAuthLogin:
        return await self._client.call(OAuthLogin, "POST", f"{PATH}/logins", json=body)

    async def find_login(self, token: str) -> OAuthLogin | None:
        body, path = {"token": token}, f"{PATH}/logins/find"
        return (await self._client.call(FoundLoginShape, "POST", path, json={**body}, idempotent=True)).login

    async def approve(self, login: str, new: NewOAuthGrant) -> str:
        body: Json = {"login": login, **dump(new)}
        return (await self._client.call(OAuthSecretShape, "POST", f"{PATH}/codes", json=body)).secret or ""

    async def exchange_code(self, given: CodeExchange) -> IssuedTokens | None:
        return (await self._client.call(IssuedTokensShape, "POST", f"{PATH}/codes/exchange", json=dump(given))).tokens

    async def refresh(self, given: RefreshExchange) -> IssuedTokens | None:
        return (await self._client.call(IssuedTokensShape, "POST", f"{PATH}/tokens/refresh", json=dump(given))).tokens

    async def revoke_token(self, token: str, client_id: str) -> None:
        await self._client.send("POST", f"{PATH}/tokens/revoke", json={"token": token, "client_id": client_id})

    async def find_token(self, token: str) -> ActiveToken | None:
        body, path = {"token": token}, f"{PATH}/tokens/find"
        found = await self._client.call(FoundTokenShape, "POST", path, json={**body}, idempotent=True)
        return found.to_active(token)

    async def admit_subject(self, given: ForeignSubject, create: bool) -> str | None:
        body: Json = {**dump(given), "create": create}
        return (await self._client.call(OAuthSecretShape, "POST", f"{PATH}/subjects", json=body)).secret

    async def link_subject(self, username: str, issuer: str, subject: str) -> None:
        path = f"/admin/users/{quote(username, safe='')}/subjects"
        await self._client.send("POST", path, json={"issuer": issuer, "subject": subject})

    # -- the caller's own grants ----------------------------------------------------------------

    async def list_own(self) -> list[OAuthGrant]:
        return [*(await self._client.call(OAuthGrantsShape, "GET", "/user/tokens", idempotent=True)).tokens]

    async def revoke(self, grant_id: int) -> None:
        await self._client.send("DELETE", f"/user/tokens/{grant_id}")

    async def revoke_all(self) -> int:
        return (await self._client.call(RevokedGrantsShape, "DELETE", "/user/tokens", idempotent=True)).revoked

    # -- administration -------------------------------------------------------------------------

    async def list_of(self, username: str) -> list[OAuthGrant]:
        return [*(await self._client.call(OAuthGrantsShape, "GET", _tokens_path(username), idempotent=True)).tokens]

    async def revoke_of(self, username: str, grant_id: int) -> None:
        await self._client.send("DELETE", f"{_tokens_path(username)}/{grant_id}")

    async def revoke_all_of(self, username: str) -> int:
        path = _tokens_path(username)
        return (await self._client.call(RevokedGrantsShape, "DELETE", path, idempotent=True)).revoked


def _tokens_path(username: str) -> str:
    return f"/admin/users/{quote(username, safe='')}/tokens"
