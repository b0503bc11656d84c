"""Reports which agents use MCP, and which requests were refused, to the engine.

Reports are collected for a second, so that no request waits for one; those of the last second before the server ends
may be lost.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import anyio
import mcp_types as types
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import Scope

from knowledge.engine.api import Engine
from knowledge.errors import ExpiredKey, KnowledgeError, MissingKey, RateLimited, Unauthenticated
from knowledge.model import Caller
from knowledge.model.agents import AgentSighting, AgentTransport, NewRefusal, RefusalReason
from knowledge.surfaces.http.rate_limits import address_of
from knowledge.surfaces.mcp.request_context import SeenRequest

log = logging.getLogger(__name__)

REPORT_SECONDS = 1.0
MAX_NOTES, MAX_REFUSALS_PER_REPORT = 2000, 100
"""Notes that wait for the next report; the oldest are dropped."""
MAX_TEXT_CHARS = 120
HANDSHAKE_METHODS = frozenset({"initialize", "server/discover"})
IGNORED_METHODS = frozenset({"ping"})
REOPENED_CLIENT = "reopened-session"
"""The name in a handshake that this server repeats after a restart, which is not that of the client."""
REASONS: tuple[tuple[type[KnowledgeError], RefusalReason], ...] = (
    (MissingKey, RefusalReason.NO_KEY),
    (ExpiredKey, RefusalReason.EXPIRED_KEY),
    (Unauthenticated, RefusalReason.WRONG_KEY),
    (RateLimited, RefusalReason.TOO_MANY),
)
DETAILS = {"host": RefusalReason.HOST, "origin": RefusalReason.ORIGIN, "toolset": RefusalReason.TOOLSET}
LEGACY_STATUSES = (404, 405)


class AgentReporter:
    """Reads the notes of requests in a task of its own, so that they cost a request nothing but the note."""

    def __init__(self, engine_for: Callable[[Caller], Engine]) -> None:
        self._engine_for = engine_for
        self.inbox: deque[SeenRequest | NewRefusal] = deque(maxlen=MAX_NOTES)
        self.arrived: anyio.Event | None = None
        """Set to wake the task; None while it does not run."""

    async def run(self) -> None:
        """Report until the server ends."""
        while True:
            self.arrived = anyio.Event()
            if not self.inbox:
                await self.arrived.wait()
            await self._report()
            await anyio.sleep(REPORT_SECONDS)

    def note_refusal(self, scope: Scope, error: KnowledgeError) -> None:
        """Leave a note of a request that was refused before an agent could be known."""
        reason, detail = find_reason(error)
        self.inbox.append(
            NewRefusal(
                reason=reason,
                client=Headers(scope=scope).get("user-agent", "")[:MAX_TEXT_CHARS],
                address=address_of(scope),
                path=scope["path"][:MAX_TEXT_CHARS],
                detail=detail[:MAX_TEXT_CHARS],
            )
        )
        if self.arrived is not None:
            self.arrived.set()

    async def _report(self) -> None:
        notes = [self.inbox.popleft() for _ in range(len(self.inbox))]
        for (caller, _), agent in join_requests([each for each in notes if isinstance(each, SeenRequest)]).items():
            await self._send(self._engine_for(caller).agents.record(agent))
        attempts = Counter(each for each in notes if isinstance(each, NewRefusal))
        refused = [replace(each, attempts=count) for each, count in attempts.most_common(MAX_REFUSALS_PER_REPORT)]
        if refused:
            await self._send(self._engine_for(Caller()).agents.record_refusals(refused))

    @staticmethod
    async def _send(report: Awaitable[None]) -> None:
        try:
            await report
        except KnowledgeError as error:  # such as a revoked key, or a remote engine without the operator's key
            log.debug("an agent was not reported: %s", error)


def join_requests(requests: Sequence[SeenRequest]) -> dict[tuple[Caller, AgentSighting], AgentSighting]:
    """Return the agents of requests with how often and what they called; the keys have no counts."""
    seen: dict[tuple[Caller, AgentSighting], AgentSighting] = {}
    for request in requests:
        # Over stdio the engine is opened after the handshake; a browser session is no agent.
        is_early = request.connection is None and request.method in HANDSHAKE_METHODS
        if request.method in IGNORED_METHODS or is_early or request.caller.session is not None:
            continue
        agent, tool = describe_agent(request), request.tool
        known = seen.get((request.caller, agent), agent)
        if isinstance(tool, str):
            known = replace(known, calls=known.calls + 1, last_tool=tool[:MAX_TEXT_CHARS])
        seen[request.caller, agent] = known
    return seen


def describe_agent(request: SeenRequest) -> AgentSighting:
    name, version = find_client(request)
    return AgentSighting(
        client=name[:MAX_TEXT_CHARS],
        version=version[:MAX_TEXT_CHARS],
        transport=find_transport(request.connection),
        toolset=",".join(request.toolsets)[:MAX_TEXT_CHARS],
        caller=request.caller.kind,
        key_prefix="_".join((request.caller.key or "").split("_", 2)[:2])[:40],
    )


def find_transport(connection: HTTPConnection | None) -> AgentTransport:
    if connection is None:
        return AgentTransport.STDIO
    return AgentTransport.WEBSOCKET if connection.scope["type"] == "websocket" else AgentTransport.HTTP


def find_client(request: SeenRequest) -> tuple[str, str]:
    """Return name and version of the client: as it said, now or when it connected, or its User-Agent."""
    given, known = request.client, request.known_client
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return given["name"], str(given.get("version", ""))
    if isinstance(known, types.Implementation) and known.name != REOPENED_CLIENT:
        return known.name, known.version
    agent = request.connection.headers.get("user-agent", "") if request.connection is not None else ""
    name, _, version = agent.partition(" ")[0].partition("/")
    return name, version


def find_reason(error: KnowledgeError) -> tuple[RefusalReason, str]:
    """Return why a request was refused, and the value that was."""
    for kind, reason in REASONS:
        if isinstance(error, kind):
            return reason, ""
    for name, reason in DETAILS.items():
        if name in error.details:
            return reason, str(error.details[name])
    return (RefusalReason.TRANSPORT if error.status in LEGACY_STATUSES else RefusalReason.OTHER), ""
