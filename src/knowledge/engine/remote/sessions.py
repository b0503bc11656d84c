"""The SessionsApi over HTTP."""

from __future__ import annotations

from urllib.parse import quote

from knowledge.engine.remote.http import EngineClient
from knowledge.model import Json
from knowledge.model.sessions import ActiveSession, BrowserSession, IssuedSession
from knowledge.wire.sessions import (
    FoundSessionShape,
    IssuedSessionShape,
    RevokedSessionsShape,
    SessionsShape,
    dump_new_session,
)


class RemoteSessions:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def open_by_password(self, username: str, password: str, stay: bool, user_agent: str) -> IssuedSession:
        return await self._open(dump_new_session(stay, user_agent, username=username, password=password))

    async def open_by_key(self, key: str, stay: bool, user_agent: str) -> IssuedSession:
        return await self._open(dump_new_session(stay, user_agent, api_key=key))

    async def open_for_operator(self, key: str, stay: bool, user_agent: str) -> IssuedSession:
        return await self._open(dump_new_session(stay, user_agent, api_key=key, is_operator=True))

    async def _open(self, body: Json) -> IssuedSession:
        return (await self._client.call(IssuedSessionShape, "POST", "/admin/sessions", json=body)).to_issued()

    async def find(self, token: str, is_use: bool = True) -> ActiveSession | None:
        body: Json = {"token": token, "is_use": is_use}
        found = await self._client.call(FoundSessionShape, "POST", "/admin/sessions/check", json=body, idempotent=True)
        return None if found.active is None else found.active.to_active(token)

    async def end(self, token: str) -> None:
        await self._client.send("POST", "/admin/sessions/end", json={"token": token})

    # -- the caller's own sessions --------------------------------------------------------------

    async def list_own(self) -> list[BrowserSession]:
        return (await self._client.call(SessionsShape, "GET", "/sessions", idempotent=True)).to_sessions()

    async def revoke(self, session_id: int) -> None:
        await self._client.send("DELETE", f"/sessions/{session_id}")

    async def revoke_all(self) -> int:
        return (await self._client.call(RevokedSessionsShape, "DELETE", "/sessions", idempotent=True)).revoked

    # -- administration -------------------------------------------------------------------------

    async def list_of(self, username: str) -> list[BrowserSession]:
        found = await self._client.call(SessionsShape, "GET", _sessions_path(username), idempotent=True)
        return found.to_sessions()

    async def revoke_of(self, username: str, session_id: int) -> None:
        await self._client.send("DELETE", f"{_sessions_path(username)}/{session_id}")

    async def revoke_all_of(self, username: str) -> int:
        path = _sessions_path(username)
        return (await self._client.call(RevokedSessionsShape, "DELETE", path, idempotent=True)).revoked


def _sessions_path(username: str) -> str:
    return f"/admin/users/{quote(username, safe='')}/sessions"
