"""MCP over HTTP and WebSocket as routes for the one application."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route, WebSocketRoute

from knowledge.surfaces.mcp.endpoint import McpEndpoint
from knowledge.surfaces.mcp.surface import McpSurface
from knowledge.surfaces.mcp.websocket import make_websocket_endpoint

EXTRA_PATHS = {"manager": ("/api/v1/mcp",)}
"""Addresses that a contract names for itself, beside /mcp/<toolset>."""


def make_routes(surface: McpSurface) -> list[BaseRoute]:
    plain, socket = McpEndpoint(surface), make_websocket_endpoint(surface)
    paths = ["/mcp", "/mcp/readonly", "/mcp/{toolset}", "/mcp/{toolset}/readonly"]
    routes: list[BaseRoute] = []
    for path in [*paths, *(f"{path}/" for path in paths)]:
        routes += [Route(path, plain), WebSocketRoute(path, socket)]
    for toolset, doors in EXTRA_PATHS.items():
        if toolset in surface.selection.allowed:
            own = McpEndpoint(surface, toolset)
            routes += [Route(variant, own) for door in doors for variant in (door, f"{door}/")]
    return routes
