"""Reports which agents use MCP, and which requests were refused, to the engine.

Reports are collected for a second, so that no request waits for one; those of the last second before the server ends
may be lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import Scope

from knowledge.engine.api import Engine
from knowledge.errors import ExpiredKey, KnowledgeError, MissingKey, RateLimited, Unauthenticated
from knowledge.model import Caller
from knowledge.model.agents import AgentSighting, AgentTransport, NewRefusal, RefusalReason
from knowledge.surfaces.http.rate_limits import address_of
from knowledge.surfaces.mcp.request_context import BackgroundWork, McpRequest

log = logging.getLogger(__name__)

REPORT_SECONDS = 1.0
MAX_WAITING = 200
"""Agents and refusals that wait for the next report; more are left out."""
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
    def __init__(self, engine_for: Callable[[Caller], Engine]) -> None:
        self._engine_for = engine_for
        self.start_task: Callable[[BackgroundWork], None] | None = None
        """Set while the server runs."""
        self._seen: dict[tuple[Caller, AgentSighting], AgentSighting] = {}
        self._refused: dict[NewRefusal, int] = {}
        self._is_reporting = False

    def note_request(self, context: ServerRequestContext[Any, Any], mcp_request: McpRequest) -> None:
        """Take note of one request of an agent."""
        method, request = context.method, context.request
        # Over stdio the engine is opened after the handshake.
        if method in IGNORED_METHODS or (request is None and method in HANDSHAKE_METHODS):
            return
        caller, tool = mcp_request.tool_call.caller, find_tool_name(context)
        if caller.session is not None:
            return
        name, version = find_client(context)
        agent = AgentSighting(
            client=name[:MAX_TEXT_CHARS],
            version=version[:MAX_TEXT_CHARS],
            transport=find_transport(request),
            toolset=",".join(mcp_request.view.toolsets)[:MAX_TEXT_CHARS],
            caller=caller.kind,
            key_prefix="_".join((caller.key or "").split("_", 2)[:2])[:40],
        )
        known = self._seen.get((caller, agent), agent)
        if len(self._seen) < MAX_WAITING:
            calls = known.calls + (tool is not None)
            self._seen[caller, agent] = replace(known, calls=calls, last_tool=tool or known.last_tool)
            self._start()

    def note_refusal(self, scope: Scope, error: KnowledgeError) -> None:
        """Take note of a request that was refused before an agent could be known."""
        agent = Headers(scope=scope).get("user-agent", "")
        reason, detail = find_reason(error)
        refused = NewRefusal(
            reason=reason,
            client=agent[:MAX_TEXT_CHARS],
            address=address_of(scope),
            path=scope["path"][:MAX_TEXT_CHARS],
            detail=detail[:MAX_TEXT_CHARS],
        )
        if refused in self._refused or len(self._refused) < MAX_WAITING:
            self._refused[refused] = self._refused.get(refused, 0) + 1
            self._start()

    def _start(self) -> None:
        if not self._is_reporting and self.start_task is not None:
            self._is_reporting = True
            self.start_task(self._report)

    async def _report(self) -> None:
        try:
            while self._seen or self._refused:
                seen, self._seen = self._seen, {}
                refused, self._refused = self._refused, {}
                for (caller, _), agent in seen.items():
                    await self._send(self._engine_for(caller).agents.record(agent))
                if refused:
                    counted = [replace(each, attempts=attempts) for each, attempts in refused.items()]
                    await self._send(self._engine_for(Caller()).agents.record_refusals(counted[:100]))
                await anyio.sleep(REPORT_SECONDS)
        finally:
            self._is_reporting = False

    @staticmethod
    async def _send(report: Any) -> None:
        try:
            await report
        except KnowledgeError as error:  # such as a revoked key, or a remote engine without the operator's key
            log.debug("an agent was not reported: %s", error)


def find_tool_name(context: ServerRequestContext[Any, Any]) -> str | None:
    name = (context.params or {}).get("name") if context.method == "tools/call" else None
    return name[:MAX_TEXT_CHARS] if isinstance(name, str) else None


def find_transport(request: object) -> AgentTransport:
    if request is None:
        return AgentTransport.STDIO
    is_socket = isinstance(request, HTTPConnection) and request.scope["type"] == "websocket"
    return AgentTransport.WEBSOCKET if is_socket else AgentTransport.HTTP


def find_client(context: ServerRequestContext[Any, Any]) -> tuple[str, str]:
    """Return name and version of the client: as it said when it connected, or its User-Agent."""
    params: Mapping[str, Any] = context.params or {}
    meta = params.get("_meta")
    given = params.get("clientInfo") if context.method == "initialize" else None
    if given is None and isinstance(meta, Mapping):
        given = meta.get(types.CLIENT_INFO_META_KEY)
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return given["name"], str(given.get("version", ""))
    known = context.session.client_params
    if known is not None and known.client_info.name != REOPENED_CLIENT:
        return known.client_info.name, known.client_info.version
    agent = context.request.headers.get("user-agent", "") if isinstance(context.request, HTTPConnection) else ""
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
