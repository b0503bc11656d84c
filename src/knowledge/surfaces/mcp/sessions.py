"""Limits on MCP sessions: in total and for one caller. The SDK has a limit in total only, which one caller can use up.

A caller who opens more loses the own session that was idle the longest; its client is answered 404 and, as MCP has it,
opens another. The SDK is told by the request with which a client ends a session.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from mcp.server.streamable_http_manager import DEFAULT_SESSION_IDLE_TIMEOUT
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import RateLimited, Unavailable
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.auth import format_caller_id
from knowledge.surfaces.http.rate_limits import network_of

MAX_SESSIONS = 10_000
MAX_SESSIONS_PER_CALLER = 1000
RETRY_SECONDS = 60
SESSION_HEADER = b"mcp-session-id"
KEPT_SCOPE_KEYS = ("type", "asgi", "http_version", "scheme", "path", "query_string", "client", "server", "user")


@dataclass(slots=True, eq=False)
class McpSession:
    owner: str
    scope: Scope
    """What the request that ends it repeats of the one that opened it; it says whose the session is."""
    uid: bytes = b""
    requests: int = 1
    last_used: float = 0.0


class McpSessions:
    """Limits sessions per caller and in total; evicts the least recently used idle session."""

    def __init__(
        self,
        handle: ASGIApp,
        *,
        per_caller: int = MAX_SESSIONS_PER_CALLER,
        total: int = MAX_SESSIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handle, self._clock = handle, clock
        self._per_caller, self._total = per_caller, total
        self._by_uid: dict[bytes, McpSession] = {}
        self._by_owner: dict[str, OrderedDict[McpSession, None]] = {}
        """Those of each owner, the one that was used last at the end."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    async def serve(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises RateLimited or Unavailable where no session can be opened."""
        uid = next((value for name, value in scope["headers"] if name == SESSION_HEADER), None)
        if uid is None:
            await self._open_session(owner, scope, receive, send)
            return
        session = self._by_uid.get(uid)
        if session is None or session.owner != owner:  # the SDK knows it, or it does not
            await self._handle(scope, receive, send)
            return
        session.requests += 1
        answer = SessionResponse(send)
        try:
            await self._handle(scope, receive, answer)
        finally:
            self._end_request(session)
            if answer.status == 404 or (scope["method"] == "DELETE" and answer.status == 200):
                self._forget(session)

    async def _open_session(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make_room(owner)
        session = McpSession(owner, {name: scope[name] for name in KEPT_SCOPE_KEYS if name in scope})
        self._by_owner.setdefault(owner, OrderedDict())[session] = None
        self._size += 1
        answer = SessionResponse(send)
        try:
            await self._handle(scope, receive, answer)
        finally:
            self._end_request(session)
            if answer.uid and answer.status < 400:
                session.uid = answer.uid
                self._by_uid[answer.uid] = session
            else:
                self._forget(session)

    def _end_request(self, session: McpSession) -> None:
        session.requests -= 1
        session.last_used = self._clock()
        own = self._by_owner.get(session.owner, OrderedDict())
        if session in own:
            own.move_to_end(session)

    async def _make_room(self, owner: str) -> None:
        own = self._by_owner.get(owner, OrderedDict())
        while len(own) >= self._per_caller:
            if not await self._end_idle(own):
                raise RateLimited(
                    f"{len(own)} of your MCP sessions are in use, and no more are allowed",
                    hint="End one with DELETE, or close its stream; KNOWLEDGE_MAX_SESSIONS_PER_CALLER sets the limit.",
                    retry_after=RETRY_SECONDS,
                )
        while self._size >= self._total:
            if not await self._end_idle(max(self._by_owner.values(), key=len)):
                raise Unavailable(
                    f"{self._size} MCP sessions are in use, and no more are allowed",
                    hint="Try again later.",
                    retry_after=RETRY_SECONDS,
                )

    async def _end_idle(self, sessions: OrderedDict[McpSession, None]) -> bool:
        """End the session that was idle the longest; False where all are in use."""
        idle = next((session for session in sessions if not session.requests), None)
        if idle is None:
            return False
        self._forget(idle)
        if self._clock() - idle.last_used > DEFAULT_SESSION_IDLE_TIMEOUT:
            return True  # the SDK has ended it long ago
        headers = [(SESSION_HEADER, idle.uid)]
        await self._handle({**idle.scope, "method": "DELETE", "headers": headers}, _no_body, _discard)
        return True

    def _forget(self, session: McpSession) -> None:
        own = self._by_owner.get(session.owner, OrderedDict())
        if session not in own:
            return
        del own[session]
        self._size -= 1
        self._by_uid.pop(session.uid, None)
        if not own:
            del self._by_owner[session.owner]


class SessionResponse:
    """Passes an answer on, and remembers its status and the session that it names."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.uid = 0, b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.uid = next((value for name, value in message["headers"] if name.lower() == SESSION_HEADER), b"")
        await self._send(message)


def session_owner(caller: Caller, scope: Scope) -> str:
    """Whose sessions are counted together: those of an account; without one, those of an address."""
    if caller.kind is CallerKind.ACCOUNT:
        return format_caller_id(caller)
    client = scope.get("client")
    return f"{format_caller_id(caller)}:{network_of(client[0]) if client else 'unknown'}"


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(_: Message) -> None:
    """Nobody reads the answer."""
