"""Limits MCP sessions in total and per caller; the SDK has only a total, which a single caller could exhaust.

At the limit, the caller's least recently used idle session is evicted with a DELETE request to the SDK. Its client
then gets 404 and opens a new session, as the MCP specification requires.
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
    """KEPT_SCOPE_KEYS of the request that opened the session; the DELETE request that evicts it repeats them."""
    uid: bytes = b""
    requests: int = 1
    last_used: float = 0.0


class McpSessions:
    """An ASGI wrapper that limits sessions per caller and in total, and evicts the least recently used idle one."""

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
        """Sessions by owner, least recently used first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    async def serve(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the SDK; raise RateLimited or Unavailable if no session can be opened."""
        uid = next((value for name, value in scope["headers"] if name == SESSION_HEADER), None)
        if uid is None:
            await self._open_session(owner, scope, receive, send)
            return
        session = self._by_uid.get(uid)
        if session is None or session.owner != owner:  # the SDK answers 404 to unknown and foreign sessions
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
        await self._evict_to_limits(owner)
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

    async def _evict_to_limits(self, owner: str) -> None:
        own = self._by_owner.get(owner, OrderedDict())
        while len(own) >= self._per_caller:
            if not await self._end_idle(own):
                raise RateLimited(
                    f"MCP session limit reached: {len(own)} of your {self._per_caller} sessions are in use",
                    hint="End one with DELETE or close its stream; KNOWLEDGE_MAX_SESSIONS_PER_CALLER sets the limit.",
                    retry_after=RETRY_SECONDS,
                )
        while self._size >= self._total:
            if not await self._end_idle(max(self._by_owner.values(), key=len)):
                raise Unavailable(
                    f"MCP session limit reached: {self._size} of {self._total} sessions are in use",
                    hint="Try again later.",
                    retry_after=RETRY_SECONDS,
                )

    async def _end_idle(self, sessions: OrderedDict[McpSession, None]) -> bool:
        """End the least recently used idle session; return False if all are in use."""
        idle = next((session for session in sessions if not session.requests), None)
        if idle is None:
            return False
        self._forget(idle)
        if self._clock() - idle.last_used > DEFAULT_SESSION_IDLE_TIMEOUT:
            return True  # the SDK has already ended it
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
    """Forwards a response and records its status and session id."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.uid = 0, b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.uid = next((value for name, value in message["headers"] if name.lower() == SESSION_HEADER), b"")
        await self._send(message)


def session_owner(caller: Caller, scope: Scope) -> str:
    """Return the key that sessions are counted by: the account, or else the client's network."""
    if caller.kind is CallerKind.ACCOUNT:
        return format_caller_id(caller)
    client = scope.get("client")
    return f"{format_caller_id(caller)}:{network_of(client[0]) if client else 'unknown'}"


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(_: Message) -> None:
    pass
