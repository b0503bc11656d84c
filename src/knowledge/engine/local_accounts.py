"""The AccountsApi of LocalEngine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from knowledge.engine.accounts import AccountService, check_username
from knowledge.engine.passwords import PasswordService
from knowledge.engine.permissions import operator_required
from knowledge.engine.threads import EngineThreads
from knowledge.errors import AccountNotFound, Forbidden, WrongPassword
from knowledge.model import Account, ApiKey, Caller, IssuedKey, RemovalResult
from knowledge.model.accounts import AccountUsage
from knowledge.store.accounts.accounts import StoredAccount


class LocalAccounts:
    def __init__(
        self,
        threads: EngineThreads,
        service: AccountService,
        passwords: PasswordService,
        *,
        owner: int,
        for_operator: bool,
        registration: bool,
        login_key_days: int,
        remove_account: Callable[[StoredAccount], Awaitable[RemovalResult]],
        read_usage: Callable[[int], AccountUsage],
    ) -> None:
        self._run, self._service, self._passwords = threads.run, service, passwords
        self._owner, self._for_operator = owner, for_operator
        self._registration, self._login_key_days = registration, login_key_days
        self._remove_account, self._read_usage = remove_account, read_usage

    # -- without a caller -----------------------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        if not self._registration:
            raise Forbidden("Registration is closed on this server", hint="Ask the operator for an account.")
        if self._service.is_reserved(username):
            raise Forbidden(
                f"The username '{username[:64]}' is reserved for an admin of this server",
                hint="Choose another username. The operator creates this account with 'knowledge user add'.",
                parameter="username",
            )
        return await self._create(username, password)

    async def login(self, username: str, password: str) -> IssuedKey:
        found = await self._run(lambda: self._service.store.find(username))
        matches = await self._passwords.verify_password(password, found.password if found else None)
        if found is None or not matches or found.is_disabled:
            raise WrongPassword("The username or the password is wrong")
        return await self._run(lambda: self._service.issue_login_key(found, self._login_key_days))

    async def is_registration_open(self) -> bool:
        return self._registration

    async def find_by_key(self, key: str) -> Caller | None:
        return await self._run(lambda: self._service.authenticate_key(key))

    # -- the caller's own account ---------------------------------------------------------------

    async def me(self) -> Account:
        return self._service.to_account(await self._find_own())

    async def list_keys(self) -> list[ApiKey]:
        own = await self._find_own()
        return await self._run(lambda: self._service.keys.list_of_account(own.id))

    async def create_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey:
        own = await self._find_own()
        return await self._run(lambda: self._service.issue_key(own, name, expires_at))

    async def rotate_key(self, key_id: int) -> IssuedKey:
        own = await self._find_own()
        return await self._run(lambda: self._service.rotate_key(own, key_id))

    async def usage(self) -> AccountUsage:
        own = await self._find_own()
        return await self._run(lambda: self._read_usage(own.id))

    async def revoke_key(self, key_id: int) -> None:
        own = await self._find_own()
        await self._run(lambda: self._service.keys.revoke(own.id, key_id))

    async def change_password(self, old: str, new: str) -> None:
        own = await self._verify_own_password(old)
        password_hash = await self._passwords.hash_password(new, own.username)
        await self._run(lambda: self._service.keys.change_password(own.id, password_hash))

    async def delete_me(self, password: str) -> RemovalResult:
        return await self._remove_account(await self._verify_own_password(password))

    async def _find_own(self) -> StoredAccount:
        stored = await self._run(lambda: self._service.store.get(self._owner))
        if stored is None:
            raise AccountNotFound(
                "The local owner has no account", hint="Log in, and send the account's API key with the request."
            )
        return stored

    async def _verify_own_password(self, password: str) -> StoredAccount:
        own = await self._find_own()
        if not await self._passwords.verify_password(password, own.password):
            raise WrongPassword("The password is wrong")
        return own

    # -- administration -------------------------------------------------------------------------

    async def list_all(self) -> list[Account]:
        return await self._run(lambda: [self._service.to_account(stored) for stored in self._service.store.list_all()])

    async def add(self, username: str, password: str | None = None) -> Account:
        if not self._for_operator and self._service.is_reserved(username):
            raise operator_required()
        return await self._create(username, password)

    async def _create(self, username: str, password: str | None) -> Account:
        check_username(username)
        password_hash = None if password is None else await self._passwords.hash_password(password, username)
        return self._service.to_account(await self._run(lambda: self._service.store.create(username, password_hash)))

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        return await self._run(lambda: self._service.issue_key(self._service.store.require(username), name, expires_at))

    async def disable(self, username: str, disabled: bool = True) -> Account:
        store = self._service.store
        return await self._run(
            lambda: self._service.to_account(store.set_disabled(store.require(username).id, disabled))
        )

    async def remove(self, username: str) -> RemovalResult:
        return await self._remove_account(await self._run(lambda: self._service.store.require(username)))
