"""MCP over standard input and output, for agents that start us as their own process."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from mcp.server.stdio import stdio_server

from knowledge.engine.api import Engine
from knowledge.model import Caller
from knowledge.surfaces.limits import RateLimits
from knowledge.surfaces.mcp.server import KnowledgeServer
from knowledge.surfaces.mcp.stream import beside, serve_stream
from knowledge.surfaces.mcp.views import Views
from knowledge.surfaces.mcp.visit import Visit, drawing
from knowledge.toolsets.base import Limits, Registry, View


async def serve_stdio(
    engine: Engine,
    registry: Registry,
    *,
    limits: Limits | None = None,
    toolsets: str = "",
    read_only: bool = False,
    caller: Caller | None = None,
    services: Mapping[type[object], object] | None = None,
    rates: RateLimits | None = None,
) -> None:
    """Serve until the other side closes our input."""
    server = KnowledgeServer(registry)
    view = View(Views.of(toolsets, registry.names).default, read_only)
    async with stdio_server() as (read, write), anyio.create_task_group() as group:
        server.home = Visit(
            engine=engine, view=view, caller=caller or Caller(), limits=limits or Limits(), services=services or {},
            start=beside(group), draw=drawing(rates, caller or Caller()),
        )  # fmt: skip
        await serve_stream(server, read, write)
        group.cancel_scope.cancel()
