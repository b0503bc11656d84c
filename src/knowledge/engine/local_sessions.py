"""The SessionsApi of LocalEngine."""

from __future__ import annotations

from knowledge.engine.accounts import AccountService, digest_key
from knowledge.engine.passwords import PasswordService
from knowledge.engine.threads import EngineThreads
from knowledge.errors import ExpiredKey, WrongPassword
from knowledge.model import LOCAL_OWNER
from knowledge.model.sessions import ActiveSession, BrowserSession, IssuedSession


class LocalSessions:
    def __init__(
        self, threads: EngineThreads, service: AccountService, passwords: PasswordService, *, owner: int
    ) -> None:
        self._run, self._service, self._passwords = threads.run, service, passwords
        self._account_id = None if owner == LOCAL_OWNER else owner

    # -- for the surface that has a browser in front of it --------------------------------------

    async def open_by_password(self, username: str, password: str, stay: bool, user_agent: str) -> IssuedSession:
        found = await self._run(lambda: self._service.store.find(username))
        matches = await self._passwords.verify_password(password, found.password if found else None)
        if found is None or not matches or found.is_disabled:
            raise wrong_login_error()
        return await self._run(lambda: self._service.open_session(found, stay=stay, user_agent=user_agent))

    async def open_by_key(self, key: str, stay: bool, user_agent: str) -> IssuedSession:
        return await self._run(lambda: self._open_by_key(key, stay, user_agent))

    def _open_by_key(self, key: str, stay: bool, user_agent: str) -> IssuedSession:
        try:
            found = self._service.find_key(key)
        except ExpiredKey:
            found = None
        if found is None:
            raise wrong_login_error()
        return self._service.open_session(found.account, stay=stay, user_agent=user_agent, key=found)

    async def open_for_operator(self, key: str, stay: bool, user_agent: str) -> IssuedSession:
        return await self._run(
            lambda: self._service.open_session(None, stay=stay, user_agent=user_agent, operator_key=key)
        )

    async def find(self, token: str, is_use: bool = True) -> ActiveSession | None:
        return await self._run(lambda: self._service.authenticate_session(token, is_use=is_use))

    async def end(self, token: str) -> None:
        await self._run(lambda: self._service.sessions.end(digest_key(token)))

    # -- the caller's own sessions --------------------------------------------------------------

    async def list_own(self) -> list[BrowserSession]:
        return await self._run(lambda: self._service.sessions.list_of_owner(self._account_id))

    async def revoke(self, session_id: int) -> None:
        await self._run(lambda: self._service.sessions.revoke(self._account_id, session_id))

    async def revoke_all(self) -> int:
        return await self._run(lambda: self._service.sessions.revoke_all(self._account_id))

    # -- administration -------------------------------------------------------------------------

    async def list_of(self, username: str) -> list[BrowserSession]:
        service = self._service
        return await self._run(lambda: service.sessions.list_of_owner(service.store.require(username).id))

    async def revoke_of(self, username: str, session_id: int) -> None:
        service = self._service
        await self._run(lambda: service.sessions.revoke(service.store.require(username).id, session_id))

    async def revoke_all_of(self, username: str) -> int:
        service = self._service
        return await self._run(lambda: service.sessions.revoke_all(service.store.require(username).id))


def wrong_login_error() -> WrongPassword:
    """The same sentence for every way to log in, so that it tells nobody which part was wrong."""
    return WrongPassword(
        "The username, the password or the API key is wrong",
        hint="Check the username and the password, or the API key.",
    )
