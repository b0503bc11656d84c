"""The state that all MCP endpoints of an application share: server, sessions and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import URL
from starlette.types import Scope

from knowledge.engine.api import Engine, McpSessionsApi
from knowledge.errors import KnowledgeError
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.origins import HTTP_SCHEMES
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.mcp.agent_reports import AgentReporter
from knowledge.surfaces.mcp.request_context import BackgroundWork, McpRequest, make_acquire
from knowledge.surfaces.mcp.server import KnowledgeServer
from knowledge.surfaces.mcp.sessions import MAX_SESSIONS, MAX_SESSIONS_PER_CALLER, McpSessions
from knowledge.surfaces.mcp.toolset_selection import ToolsetSelection
from knowledge.toolsets.base import CallLimits, ErrorFormatter, Registry, ToolCall
from knowledge.toolsets.values import ServerLinks

MAX_BODY_BYTES = 4 << 20
"""Limit for one HTTP body or WebSocket message."""


class McpSurface:
    """The MCP server of an application; `run()` must be entered while its routes are served."""

    def __init__(
        self,
        registry: Registry,
        engine_for: Callable[[Caller], Engine],
        *,
        limits: CallLimits | None = None,
        account_limits: CallLimits | None = None,
        links: ServerLinks | None = None,
        toolsets: str = "",
        services: Mapping[type[object], object] | None = None,
        rates: RateLimits | None = None,
        sessions_per_caller: int = MAX_SESSIONS_PER_CALLER,
        session_ids: McpSessionsApi | None = None,
        reports_agents: bool = False,
    ) -> None:
        self.server = KnowledgeServer(registry)
        self._reporter = AgentReporter(engine_for) if reports_agents else None
        self.server.reporter = self._reporter
        self.selection = ToolsetSelection.from_setting(toolsets, registry.names, registry.standalone_names)
        self.manager = StreamableHTTPSessionManager(
            self.server, max_request_body_size=MAX_BODY_BYTES, max_sessions=MAX_SESSIONS
        )
        ids = session_ids or engine_for(Caller()).mcp_sessions
        self.sessions = McpSessions(self.manager.handle_request, ids, per_caller=sessions_per_caller)
        self._engine_for = engine_for
        self._limits, self._services = limits or CallLimits(), services or {}
        self._account_limits = account_limits or self._limits
        self._links = links or ServerLinks()
        self._rates = rates
        self._task_group: TaskGroup | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with self.manager.run(), anyio.create_task_group() as group:
            self._task_group = group
            if self._reporter is not None:
                group.start_soon(self._reporter.run)
            try:
                yield
            finally:
                self.server.watches.close()
                self._task_group = None
                group.cancel_scope.cancel()

    def admit_request(self, scope: Scope, headers: Mapping[str, str], toolset: str | None = None) -> McpRequest:
        """Return the context of a request that passed the guard; raise NotFound for a toolset that is not allowed."""
        read_only = scope["path"].rstrip("/").endswith("/readonly")
        named = toolset or scope["path_params"].get("toolset")
        view = self.selection.select(named, read_only, headers)
        caller = caller_of(scope)
        is_account = caller.kind is CallerKind.ACCOUNT
        limits = self._account_limits if is_account else self._limits
        links = self._links if self._links.base_url else replace(self._links, base_url=_find_base_url(scope))
        call = ToolCall(
            engine=self._engine_for(caller), caller=caller, limits=limits, links=links, services=self._services
        )
        return McpRequest(tool_call=call, view=view, acquire=make_acquire(self._rates, caller) if is_account else None)

    def find_error_formatter(self, toolset: str | None) -> ErrorFormatter | None:
        """Return the error formatter of a toolset with a path of its own; None for the general endpoints."""
        return None if toolset is None else self.server.registry.toolsets[toolset].format_error

    def report_refusal(self, scope: Scope, error: KnowledgeError) -> None:
        """Take note of a request that was refused, so that the page can show why an agent does not connect."""
        if self._reporter is not None:
            self._reporter.note_refusal(scope, error)

    def start_task(self, work: BackgroundWork) -> None:
        """Start background work that ends with the server at the latest."""
        if self._task_group is not None:
            self._task_group.start_soon(work)


def _find_base_url(scope: Scope) -> str:
    """Return scheme and host of a request; those of a WebSocket as its pages have them."""
    url = URL(scope=scope)
    return f"{HTTP_SCHEMES.get(url.scheme, url.scheme)}://{url.netloc}"
