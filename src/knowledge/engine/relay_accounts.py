"""The verbs about people, passed on."""

from __future__ import annotations

from datetime import datetime

from knowledge.engine.relay_verbs import Asking
from knowledge.model import Account, ApiKey, Caller, IssuedKey, Removed


class AccountRelay(Asking):
    async def register(self, username: str, password: str) -> Account:
        return await self._ask(lambda engine: engine.register(username, password))

    async def login(self, username: str, password: str) -> IssuedKey:
        return await self._ask(lambda engine: engine.login(username, password))

    async def account_of(self, key: str) -> Caller | None:
        return await self._ask(lambda engine: engine.account_of(key))

    async def account(self) -> Account:
        return await self._ask(lambda engine: engine.account())

    async def api_keys(self) -> list[ApiKey]:
        return await self._ask(lambda engine: engine.api_keys())

    async def create_api_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey:
        return await self._ask(lambda engine: engine.create_api_key(name, expires_at))

    async def revoke_api_key(self, key_id: int) -> None:
        return await self._ask(lambda engine: engine.revoke_api_key(key_id))

    async def change_password(self, old: str, new: str) -> None:
        return await self._ask(lambda engine: engine.change_password(old, new))

    async def delete_account(self, password: str) -> Removed:
        return await self._ask(lambda engine: engine.delete_account(password))

    # -- looking after the others ---------------------------------------------------------------

    async def accounts(self) -> list[Account]:
        return await self._ask_as_admin(lambda engine: engine.accounts())

    async def add_account(self, username: str, password: str | None = None) -> Account:
        return await self._ask_as_admin(lambda engine: engine.add_account(username, password))

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        return await self._ask_as_operator(lambda engine: engine.issue_key(username, name, expires_at))

    async def disable_account(self, username: str, disabled: bool = True) -> Account:
        return await self._ask_as_admin(lambda engine: engine.disable_account(username, disabled))

    async def remove_account(self, username: str) -> Removed:
        return await self._ask_as_admin(lambda engine: engine.remove_account(username))
