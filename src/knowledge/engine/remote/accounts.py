"""The verbs about people, over /api/v1."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from knowledge.engine.remote.http import LONG, Line
from knowledge.errors import ExpiredKey, Unauthenticated
from knowledge.model import Account, ApiKey, Caller, CallerKind, IssuedKey, Json, Removed
from knowledge.model.accounts import ACCOUNT_KEY
from knowledge.wire import accounts as wire
from knowledge.wire import load_removed

if TYPE_CHECKING:
    import httpx


class RemoteAccounts:
    _http: httpx.AsyncClient
    _line: Line

    # -- coming in ------------------------------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        return await self._line.ask(wire.load_account, "POST", "/user/register", json=_both(username, password))

    async def login(self, username: str, password: str) -> IssuedKey:
        return await self._line.ask(wire.load_issued_key, "POST", "/user/login", json=_both(username, password))

    async def account_of(self, key: str) -> Caller | None:
        """Asked with the key itself: the engine judges it."""
        if not key.startswith(ACCOUNT_KEY):
            return None
        try:
            found = await Line(self._http, key).ask(wire.load_account, "GET", "/user", again=True)
        except ExpiredKey:
            raise
        except Unauthenticated:
            return None
        return Caller(CallerKind.ACCOUNT, found.id, found.username, key, found.is_admin)

    # -- one's own account ----------------------------------------------------------------------

    async def account(self) -> Account:
        return await self._line.ask(wire.load_account, "GET", "/user", again=True)

    async def api_keys(self) -> list[ApiKey]:
        return await self._line.ask(wire.load_api_keys, "GET", "/user/api-keys", again=True)

    async def create_api_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey:
        body = wire.dump_new_key(name, expires_at)
        return await self._line.ask(wire.load_issued_key, "POST", "/user/api-keys", json=body)

    async def revoke_api_key(self, key_id: int) -> None:
        await self._line.ask(_nothing, "DELETE", f"/user/api-keys/{key_id}")

    async def change_password(self, old: str, new: str) -> None:
        body: Json = {"old_password": old, "new_password": new}
        await self._line.ask(_nothing, "PUT", "/user/password", json=body)

    async def delete_account(self, password: str) -> Removed:
        return await self._line.ask(load_removed, "DELETE", "/user", json={"password": password}, timeout=LONG)

    # -- looking after the others ---------------------------------------------------------------

    async def accounts(self) -> list[Account]:
        return await self._line.ask(wire.load_accounts, "GET", "/admin/users", again=True)

    async def add_account(self, username: str, password: str | None = None) -> Account:
        return await self._line.ask(wire.load_account, "POST", "/admin/users", json=_both(username, password))

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        body = wire.dump_new_key(name, expires_at)
        return await self._line.ask(wire.load_issued_key, "POST", f"{_at(username)}/api-keys", json=body)

    async def disable_account(self, username: str, disabled: bool = True) -> Account:
        return await self._line.ask(wire.load_account, "PATCH", _at(username), json={"is_disabled": disabled})

    async def remove_account(self, username: str) -> Removed:
        return await self._line.ask(load_removed, "DELETE", _at(username), timeout=LONG)


def _both(username: str, password: str | None) -> Json:
    return {"username": username, "password": password}


def _nothing(_: object) -> None:
    return None


def _at(username: str) -> str:
    return f"/admin/users/{quote(username, safe='')}"
