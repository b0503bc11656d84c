"""MCP over HTTP and WebSocket as routes for the one application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Scope

from knowledge.engine.api import Engine
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.mcp.endpoint import MAX_BODY, Endpoint
from knowledge.surfaces.mcp.request_context import Visit, Work, drawing
from knowledge.surfaces.mcp.server import KnowledgeServer
from knowledge.surfaces.mcp.sessions import MAX_SESSIONS, MAX_SESSIONS_PER_CALLER, Sessions
from knowledge.surfaces.mcp.toolset_selection import Views
from knowledge.surfaces.mcp.websocket import websocket_endpoint
from knowledge.toolsets.base import Limits, Registry, Voice

OTHER_DOORS = {"manager": ("/api/v1/mcp",)}
"""Addresses that a contract names for itself, beside /mcp/<toolset>."""


class McpSurface:
    """Add `routes` to an application and keep `running()` open for as long as it serves."""

    def __init__(
        self,
        registry: Registry,
        engine_for: Callable[[Caller], Engine],
        *,
        limits: Limits | None = None,
        limits_of_accounts: Limits | None = None,
        toolsets: str = "",
        services: Mapping[type[object], object] | None = None,
        rates: RateLimits | None = None,
        sessions_per_caller: int = MAX_SESSIONS_PER_CALLER,
    ) -> None:
        self.server = KnowledgeServer(registry)
        self.views = Views.of(toolsets, registry.names)
        self.manager = StreamableHTTPSessionManager(
            self.server, max_request_body_size=MAX_BODY, max_sessions=MAX_SESSIONS
        )
        self.sessions = Sessions(self.manager.handle_request, per_caller=sessions_per_caller)
        self._engine_for = engine_for
        self._limits, self._services = limits or Limits(), services or {}
        self._limits_of_accounts = limits_of_accounts or self._limits
        self._rates = rates
        self._group: TaskGroup | None = None

    @property
    def routes(self) -> list[BaseRoute]:
        plain, socket = Endpoint(self), websocket_endpoint(self)
        paths = ["/mcp", "/mcp/readonly", "/mcp/{toolset}", "/mcp/{toolset}/readonly"]
        routes: list[BaseRoute] = []
        for path in [*paths, *(f"{path}/" for path in paths)]:
            routes += [Route(path, plain), WebSocketRoute(path, socket)]
        for toolset, doors in OTHER_DOORS.items():
            if toolset in self.views.allowed:
                own = Endpoint(self, toolset)
                routes += [Route(variant, own) for door in doors for variant in (door, f"{door}/")]
        return routes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.manager.run(), anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                group.cancel_scope.cancel()

    def admit(self, scope: Scope, headers: Mapping[str, str], toolset: str | None = None) -> Visit:
        """The visit of a request that the guard let in: who asks, and what they see."""
        read_only = scope["path"].rstrip("/").endswith("/readonly")
        named = toolset or scope["path_params"].get("toolset")
        view = self.views.seen(named, read_only, headers)
        caller = caller_of(scope)
        limits = self._limits_of_accounts if caller.kind is CallerKind.ACCOUNT else self._limits
        return Visit(
            engine=self._engine_for(caller), view=view, caller=caller, limits=limits, services=self._services,
            draw=drawing(self._rates, caller),
        )  # fmt: skip

    def voice(self, toolset: str | None) -> Voice | None:
        """How a door that a contract names for itself turns somebody away."""
        return None if toolset is None else self.server.registry.toolsets[toolset].voice

    def start(self, work: Work) -> None:
        """Run something beside the sessions until it is done or the server stops."""
        if self._group is not None:
            self._group.start_soon(work)
