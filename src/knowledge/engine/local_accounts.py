"""The verbs about people, in this process. An engine acts for the owner of its scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from knowledge.engine.accounts import check_username
from knowledge.errors import AccountNotFound, Forbidden, WrongPassword
from knowledge.model import Account, ApiKey, Caller, IssuedKey, Removed, Scope
from knowledge.store.accounts.accounts import StoredAccount
from knowledge.store.accounts.delete_account import leave
from knowledge.store.jobs.rows import Started

if TYPE_CHECKING:
    from knowledge.engine.runtime import Parts

T = TypeVar("T")


class LocalAccounts:
    _parts: Parts
    _scope: Scope

    async def _run(self, work: Callable[[], T]) -> T:
        raise NotImplementedError

    async def _stop(self, jobs: Sequence[Started]) -> None:
        raise NotImplementedError

    def _freed(self, removed: Removed, candidates: list[str]) -> Removed:
        raise NotImplementedError

    def is_reserved(self, username: str) -> bool:
        return self._parts.accounts.is_reserved(username)

    # -- coming in ------------------------------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        if not self._parts.options.registration:
            raise Forbidden("Nobody can register here by themselves", hint="Ask the operator for an account.")
        if self._parts.accounts.is_reserved(username):
            raise Forbidden(
                f"The username '{username[:64]}' is kept for an admin of this server",
                hint="Choose another one. The operator makes this account with 'knowledge user add'.",
                parameter="username",
            )
        return await self.add_account(username, password)

    async def login(self, username: str, password: str) -> IssuedKey:
        people = self._parts.accounts
        found = await self._run(lambda: people.store.find(username))
        matches = await self._parts.passwords.matches(password, found.password if found else None)
        if found is None or not matches or found.is_disabled:
            raise WrongPassword("The username or the password is wrong")
        return await self._run(lambda: people.issue_at_login(found, self._parts.options.login_key_days))

    async def account_of(self, key: str) -> Caller | None:
        return await self._run(lambda: self._parts.accounts.bearer(key))

    # -- one's own account ----------------------------------------------------------------------

    async def account(self) -> Account:
        return self._parts.accounts.shown(await self._own())

    async def api_keys(self) -> list[ApiKey]:
        own = await self._own()
        return await self._run(lambda: self._parts.accounts.keys.of_account(own.id))

    async def create_api_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey:
        own = await self._own()
        return await self._run(lambda: self._parts.accounts.issue(own, name, expires_at))

    async def revoke_api_key(self, key_id: int) -> None:
        own = await self._own()
        await self._run(lambda: self._parts.accounts.keys.revoke(own.id, key_id))

    async def change_password(self, old: str, new: str) -> None:
        own = await self._checked(old)
        kept = await self._parts.passwords.hash(new, own.username)
        await self._run(lambda: self._parts.accounts.keys.change_password(own.id, kept))

    async def delete_account(self, password: str) -> Removed:
        return await self._leave(await self._checked(password))

    async def _own(self) -> StoredAccount:
        stored = await self._run(lambda: self._parts.accounts.store.get(self._scope.owner))
        if stored is None:
            raise AccountNotFound(
                "The local owner has no account", hint="Log in, and send the account's own key with the request."
            )
        return stored

    async def _checked(self, password: str) -> StoredAccount:
        own = await self._own()
        if not await self._parts.passwords.matches(password, own.password):
            raise WrongPassword("The password is wrong")
        return own

    # -- looking after the others ---------------------------------------------------------------

    async def accounts(self) -> list[Account]:
        people = self._parts.accounts
        return await self._run(lambda: [people.shown(stored) for stored in people.store.all()])

    async def add_account(self, username: str, password: str | None = None) -> Account:
        people = self._parts.accounts
        check_username(username)
        kept = None if password is None else await self._parts.passwords.hash(password, username)
        return people.shown(await self._run(lambda: people.store.create(username, kept)))

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        people = self._parts.accounts
        return await self._run(lambda: people.issue(people.store.require(username), name, expires_at))

    async def disable_account(self, username: str, disabled: bool = True) -> Account:
        people = self._parts.accounts
        return await self._run(lambda: people.shown(people.store.disable(people.store.require(username).id, disabled)))

    async def remove_account(self, username: str) -> Removed:
        return await self._leave(await self._run(lambda: self._parts.accounts.store.require(username)))

    async def _leave(self, account: StoredAccount) -> Removed:
        """Nobody comes in any more, what runs is stopped, and then everything goes at once."""
        parts = self._parts
        await self._run(lambda: parts.accounts.store.disable(account.id, True))
        await self._stop(await self._run(lambda: parts.jobs.active_of(account.id)))
        return await self._run(lambda: self._freed(*leave(parts.database, account.id)))
