"""The OAuthApi of LocalEngine."""

from __future__ import annotations

import secrets
from datetime import timedelta

from knowledge.engine.local_sessions import wrong_login_error
from knowledge.engine.oauth.client_documents import fetch_client, is_document_url
from knowledge.engine.runtime import Runtime
from knowledge.errors import ExpiredKey
from knowledge.model import now
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

MAX_CLIENTS = 1000
"""Registrations and cached documents; the next one replaces the oldest that nobody has allowed anything."""
REGISTRATION_DAYS = 1
"""A registration without a grant is forgotten after this."""


class LocalOAuth:
    def __init__(self, parts: Runtime, owner: int) -> None:
        self._run, self._service, self._owner = parts.threads.run, parts.oauth, owner
        self._accounts, self._passwords = parts.accounts, parts.passwords
        self._allowed = parts.options.crawl.allowed

    # -- for the surface that serves the authorization endpoints --------------------------------

    async def register_client(self, name: str, redirect_uris: tuple[str, ...]) -> OAuthClient:
        client = OAuthClient(secrets.token_urlsafe(16), name, redirect_uris, False)
        until = now() + timedelta(days=REGISTRATION_DAYS)
        await self._run(lambda: self._service.clients.save(client, until, MAX_CLIENTS))
        return client

    async def find_client(self, client_id: str) -> OAuthClient | None:
        known = await self._run(lambda: self._service.clients.find(client_id))
        if known is not None or not is_document_url(client_id):
            return known
        fetched = await fetch_client(client_id, self._allowed)
        until = now() + fetched.fresh_for
        await self._run(lambda: self._service.clients.save(fetched.client, until, MAX_CLIENTS))
        return fetched.client

    async def log_in(self, username: str, password: str) -> OAuthLogin:
        found = await self._run(lambda: self._accounts.store.find(username))
        matches = await self._passwords.verify_password(password, found.password if found else None)
        if found is None or not matches or found.is_disabled:
            raise wrong_login_error()
        return await self._run(lambda: self._service.open_login(found))

    async def log_in_by_key(self, key: str) -> OAuthLogin:
        return await self._run(lambda: self._log_in_by_key(key))

    def _log_in_by_key(self, key: str) -> OAuthLogin:
        try:
            found = self._accounts.find_key(key)
        except ExpiredKey:
            found = None
        if found is None:
            raise wrong_login_error()
        return self._service.open_login(found.account)

    async def find_login(self, token: str) -> OAuthLogin | None:
        return await self._run(lambda: self._service.find_login(token))

    async def approve(self, login: str, new: NewOAuthGrant) -> str:
        return await self._run(lambda: self._service.approve(login, new))

    async def exchange_code(self, given: CodeExchange) -> IssuedTokens | None:
        return await self._run(lambda: self._service.exchange_code(given))

    async def refresh(self, given: RefreshExchange) -> IssuedTokens | None:
        return await self._run(lambda: self._service.refresh(given))

    async def revoke_token(self, token: str, client_id: str) -> None:
        await self._run(lambda: self._service.revoke_token(token, client_id))

    async def find_token(self, token: str) -> ActiveToken | None:
        return await self._run(lambda: self._service.authenticate_token(token))

    async def admit_subject(self, given: ForeignSubject, create: bool) -> str | None:
        return await self._run(lambda: self._service.admit_subject(given, create))

    # -- the caller's own grants ----------------------------------------------------------------

    async def list_own(self) -> list[OAuthGrant]:
        return await self._run(lambda: self._service.grants.list_of_account(self._owner))

    async def revoke(self, grant_id: int) -> None:
        await self._run(lambda: self._service.grants.revoke(self._owner, grant_id))

    async def revoke_all(self) -> int:
        return await self._run(lambda: self._service.grants.revoke_all(self._owner))

    # -- administration -------------------------------------------------------------------------

    async def list_of(self, username: str) -> list[OAuthGrant]:
        return await self._run(lambda: self._service.grants.list_of_account(self._find_id(username)))

    async def revoke_of(self, username: str, grant_id: int) -> None:
        await self._run(lambda: self._service.grants.revoke(self._find_id(username), grant_id))

    async def revoke_all_of(self, username: str) -> int:
        return await self._run(lambda: self._service.grants.revoke_all(self._find_id(username)))

    async def link_subject(self, username: str, issuer: str, subject: str) -> None:
        await self._run(lambda: self._service.grants.link_subject(issuer, subject, self._find_id(username)))

    def _find_id(self, username: str) -> int:
        return self._accounts.store.require(username).id
