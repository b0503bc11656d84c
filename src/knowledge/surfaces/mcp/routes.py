"""The routes of the MCP endpoints over HTTP and WebSocket."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route, WebSocketRoute

from knowledge.surfaces.mcp.endpoint import LegacySseEndpoint, McpEndpoint
from knowledge.surfaces.mcp.surface import McpSurface
from knowledge.surfaces.mcp.websocket import make_websocket_endpoint

EXTRA_PATHS = {"manager": ("/api/v1/mcp",)}
"""Further paths that a contract specifies for its toolset, beside /mcp/<toolset>."""


LEGACY_SSE_PATHS = ("/sse", "/sse/", "/mcp/sse")
"""Where servers of the HTTP+SSE transport (2024-11-05) listen by convention; answered with the right address."""


def make_routes(surface: McpSurface) -> list[BaseRoute]:
    endpoint, socket = McpEndpoint(surface), make_websocket_endpoint(surface)
    paths = ["/mcp", "/mcp/readonly", "/mcp/{toolset}", "/mcp/{toolset}/readonly"]
    paths += ["/{toolset}/mcp", "/{toolset}/mcp/readonly"]
    routes: list[BaseRoute] = [Route(path, LegacySseEndpoint(surface)) for path in LEGACY_SSE_PATHS]
    for path in [*paths, *(f"{path}/" for path in paths)]:
        routes += [Route(path, endpoint), WebSocketRoute(path, socket)]
    for toolset, extra_paths in EXTRA_PATHS.items():
        if toolset in surface.selection.allowed:
            fixed = McpEndpoint(surface, toolset)
            routes += [Route(variant, fixed) for path in extra_paths for variant in (path, f"{path}/")]
    return routes
