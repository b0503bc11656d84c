"""MCP sessions that survive a restart, limited in total and per caller.

The session id that a client gets is issued by the engine and signed (`engine/local_mcp_sessions.py`); the SDK's own id
never leaves the server. A request whose id is valid but not known here, after a restart or from another server, opens a
new SDK session with default capabilities and goes on with it: most clients of the older era never initialize again
after a 404 (python-sdk#1676, mcp-proxy#149).

At the limit, the caller's least recently used idle session is evicted with a DELETE request to the SDK. Its id stays
valid, so its next request opens it again in the same way.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio
from mcp.server.streamable_http_manager import DEFAULT_SESSION_IDLE_TIMEOUT
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.engine.api import McpSessionsApi
from knowledge.errors import AdminRequired, McpSessionNotFound, RateLimited, Unauthenticated, Unavailable
from knowledge.model import Caller, CallerKind, Json, JsonValue
from knowledge.surfaces.http.auth import format_caller_id
from knowledge.surfaces.http.rate_limits import network_of
from knowledge.surfaces.mcp.request_context import SCOPE_KEY
from knowledge.surfaces.mcp.subscriptions import SessionSubscriptions

log = logging.getLogger(__name__)

MAX_SESSIONS = 10_000
MAX_SESSIONS_PER_CALLER = 1000
RETRY_SECONDS = 60
IDLE_SECONDS = DEFAULT_SESSION_IDLE_TIMEOUT - 60.0
"""After this time without a request a session is opened again, because the SDK may be about to end it."""
SESSION_HEADER = b"mcp-session-id"
VERSION_HEADER = b"mcp-protocol-version"
KEPT_SCOPE_KEYS = ("type", "asgi", "http_version", "scheme", "path", "query_string", "client", "server", "user")


@dataclass(frozen=True, slots=True)
class SessionOwner:
    caller_id: str
    """The caller as `format_caller_id` names it; session ids are issued to it."""
    limit_key: str
    """Sessions with the same key are counted together."""


@dataclass(slots=True, eq=False)
class McpSession:
    owner: SessionOwner
    version: str
    scope: Scope
    """KEPT_SCOPE_KEYS of the request that opened the session; the DELETE request that evicts it repeats them."""
    session_id: str = ""
    sdk_id: bytes = b""
    requests: int = 1
    last_used: float = 0.0
    subscriptions: SessionSubscriptions = field(default_factory=SessionSubscriptions)


class McpSessions:
    """An ASGI wrapper around the SDK's session manager."""

    def __init__(
        self,
        handle: ASGIApp,
        ids: McpSessionsApi,
        *,
        per_caller: int = MAX_SESSIONS_PER_CALLER,
        total: int = MAX_SESSIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handle, self._ids, self._clock = handle, ids, clock
        self._per_caller, self._total = per_caller, total
        self._by_id: dict[str, McpSession] = {}
        self._by_limit_key: dict[str, OrderedDict[McpSession, None]] = {}
        """Sessions by SessionOwner.limit_key, least recently used first."""
        self._size = 0
        self._reopening = anyio.Lock()

    def __len__(self) -> int:
        return self._size

    async def initialize(
        self, owner: SessionOwner, requested_version: JsonValue, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Open a session; raise RateLimited or Unavailable at the limit."""
        version = requested_version if requested_version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        session_id = await self._issue_id(owner, str(version))
        session = await self._reserve(owner, str(version), session_id, scope)
        response = SessionResponse(send, session_id)
        try:
            await self._handle(scope, receive, response)
        finally:
            self._register(session, response)

    async def serve(self, owner: SessionOwner, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request of a session to the SDK; raise McpSessionNotFound if its id is not valid."""
        raw_id = next((value for name, value in scope["headers"] if name == SESSION_HEADER), None)
        if raw_id is None:
            await self._handle(scope, receive, send)  # the SDK answers what is missing
            return
        session_id = raw_id.decode("latin-1")
        session = await self._find_or_reopen(session_id, owner, scope)
        if scope["method"] == "DELETE":
            await self._end_id(session_id, owner)
        session.requests += 1
        scope[SCOPE_KEY].subscriptions = session.subscriptions
        response = SessionResponse(send, session_id)
        try:
            await self._handle(_with_headers(scope, {SESSION_HEADER: session.sdk_id}), receive, response)
        finally:
            self._finish_request(session)
            if response.status == 404 or (scope["method"] == "DELETE" and response.status < 400):
                self._forget(session)

    # -- ids ------------------------------------------------------------------------------------

    async def _issue_id(self, owner: SessionOwner, version: str) -> str:
        try:
            return await self._ids.issue(owner.caller_id, version)
        except (AdminRequired, Unauthenticated):
            # In front of a remote engine without its operator's key: sessions work, and end with this process.
            log.info("MCP sessions will not survive a restart: the engine issues ids only with its KB_API_KEY")
            return uuid.uuid4().hex

    async def _end_id(self, session_id: str, owner: SessionOwner) -> None:
        with suppress(AdminRequired, Unauthenticated):  # else an id of this process, which is forgotten anyway
            await self._ids.end(session_id, owner.caller_id)

    async def _find_version(self, session_id: str, owner: SessionOwner) -> str:
        try:
            version = await self._ids.find_version(session_id, owner.caller_id)
        except (AdminRequired, Unauthenticated):
            version = None
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise McpSessionNotFound("Session not found")
        return version

    # -- opening again --------------------------------------------------------------------------

    async def _find_or_reopen(self, session_id: str, owner: SessionOwner, scope: Scope) -> McpSession:
        session = self._find_live(session_id, owner)
        if session is None:
            version = await self._find_version(session_id, owner)
            async with self._reopening:  # two requests of one client must not open two sessions
                session = self._find_live(session_id, owner) or await self._reopen(session_id, owner, version, scope)
        return session

    def _find_live(self, session_id: str, owner: SessionOwner) -> McpSession | None:
        session = self._by_id.get(session_id)
        if session is None or session.owner.caller_id != owner.caller_id:
            return None
        if not self._is_alive(session):
            self._forget(session)
            return None
        return session

    def _is_alive(self, session: McpSession) -> bool:
        return session.requests > 0 or self._clock() - session.last_used <= IDLE_SECONDS

    async def _reopen(self, session_id: str, owner: SessionOwner, version: str, scope: Scope) -> McpSession:
        """Send the SDK the handshake that the client has made with the server before this one."""
        session = await self._reserve(owner, version, session_id, scope)
        client: Json = {"name": "reopened-session", "version": "0"}
        params: Json = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        response = SessionResponse(_discard, session_id)
        initialize: Json = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        try:
            await self._post(session, scope, initialize, response)
        finally:
            self._register(session, response)
        if session_id not in self._by_id:
            raise Unavailable("The session could not be opened again", retry_after=RETRY_SECONDS)
        await self._post(session, scope, {"jsonrpc": "2.0", "method": "notifications/initialized"}, _discard)
        return session

    async def _post(self, session: McpSession, scope: Scope, message: Json, send: Send) -> None:
        body = json.dumps(message).encode()
        headers = {
            b"content-type": b"application/json",
            b"content-length": str(len(body)).encode(),
            b"accept": b"application/json, text/event-stream",
            VERSION_HEADER: session.version.encode(),
        }
        if session.sdk_id:
            headers[SESSION_HEADER] = session.sdk_id
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if sent:
                await anyio.sleep_forever()  # a disconnect would cancel the answer
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._handle({**scope, "method": "POST", "headers": [*headers.items()]}, receive, send)

    # -- limits ---------------------------------------------------------------------------------

    async def _reserve(self, owner: SessionOwner, version: str, session_id: str, scope: Scope) -> McpSession:
        await self._evict_to_limit(owner)
        kept = {name: scope[name] for name in KEPT_SCOPE_KEYS if name in scope}
        session = McpSession(owner, version, kept, session_id)
        session.subscriptions.is_open = partial(self._is_alive, session)
        self._by_limit_key.setdefault(owner.limit_key, OrderedDict())[session] = None
        self._size += 1
        return session

    def _register(self, session: McpSession, response: SessionResponse) -> None:
        """Keep a session that the SDK has opened, and drop one that it refused."""
        self._finish_request(session)
        if response.sdk_id and response.status < 400:
            session.sdk_id = response.sdk_id
            self._by_id[session.session_id] = session
        else:
            self._forget(session)

    def _finish_request(self, session: McpSession) -> None:
        session.requests -= 1
        session.last_used = self._clock()
        own = self._by_limit_key.get(session.owner.limit_key, OrderedDict())
        if session in own:
            own.move_to_end(session)

    async def _evict_to_limit(self, owner: SessionOwner) -> None:
        own = self._by_limit_key.get(owner.limit_key, OrderedDict())
        while len(own) >= self._per_caller:
            if not await self._evict_idle(own):
                raise RateLimited(
                    f"No session can be opened: {len(own)} of your {self._per_caller} sessions are in use",
                    hint="End one with DELETE, or close its stream; KNOWLEDGE_MAX_SESSIONS_PER_CALLER sets the limit.",
                    retry_after=RETRY_SECONDS,
                )
        while self._size >= self._total:
            if not await self._evict_idle(max(self._by_limit_key.values(), key=len)):
                raise Unavailable(
                    f"No session can be opened: {self._size} of {self._total} sessions are in use",
                    hint="Try again later.",
                    retry_after=RETRY_SECONDS,
                )

    async def _evict_idle(self, sessions: OrderedDict[McpSession, None]) -> bool:
        """Evict the least recently used idle session; False if all are in use."""
        idle = next((session for session in sessions if not session.requests), None)
        if idle is None:
            return False
        self._forget(idle)
        if self._clock() - idle.last_used <= DEFAULT_SESSION_IDLE_TIMEOUT:  # after that the SDK has ended it itself
            headers = [(SESSION_HEADER, idle.sdk_id)]
            await self._handle({**idle.scope, "method": "DELETE", "headers": headers}, _receive_empty, _discard)
        return True

    def _forget(self, session: McpSession) -> None:
        own = self._by_limit_key.get(session.owner.limit_key, OrderedDict())
        if session not in own:
            return
        del own[session]
        session.subscriptions.end_all()
        self._size -= 1
        if self._by_id.get(session.session_id) is session:
            del self._by_id[session.session_id]
        if not own:
            del self._by_limit_key[session.owner.limit_key]


class SessionResponse:
    """Forwards a response with the client's session id in place of the SDK's, and records both and the status.

    An error names no session: the SDK puts the id of a session that it drops at once into the refusal to open it.
    """

    def __init__(self, send: Send, session_id: str) -> None:
        self._send, self._session_id = send, session_id.encode("latin-1")
        self.status, self.sdk_id = 0, b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [(name, value) for name, value in message["headers"] if name.lower() != SESSION_HEADER]
            self.sdk_id = next((value for name, value in message["headers"] if name.lower() == SESSION_HEADER), b"")
            if self.sdk_id and self.status < 400:
                headers.append((SESSION_HEADER, self._session_id))
            message = {**message, "headers": headers}
        await self._send(message)


def find_session_owner(caller: Caller, scope: Scope) -> SessionOwner:
    """Return the owner of a caller's sessions: limits count by account, or by network without one."""
    caller_id = format_caller_id(caller)
    if caller.kind is CallerKind.ACCOUNT:
        return SessionOwner(caller_id, caller_id)
    client = scope.get("client")
    return SessionOwner(caller_id, f"{caller_id}:{network_of(client[0]) if client else 'unknown'}")


def _with_headers(scope: Scope, changed: dict[bytes, bytes]) -> Scope:
    kept = [(name, value) for name, value in scope["headers"] if name not in changed]
    return {**scope, "headers": [*kept, *changed.items()]}


async def _receive_empty() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(_: Message) -> None:
    """Ignore a response that nobody waits for."""
