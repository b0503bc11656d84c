"""The servers that mcp_call.py compares, each with a read-only tool and one that writes.

    python benchmarks/mcp_servers.py ours|bare|fastmcp

Prints the port; GET /cpu returns the CPU seconds of the process.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp

DESCRIPTION = "Say the same thing again"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def report_cpu(_: Request) -> PlainTextResponse:
    return PlainTextResponse(str(time.process_time()))


def make_our_app() -> ASGIApp:
    """Return our MCP endpoint with guard, request log, tool registry and an engine for the sessions."""
    from knowledge.app import open_engine
    from knowledge.config import Settings
    from knowledge.surfaces.http.logs import configure_logging
    from knowledge.surfaces.http.server import wrap_in_guard_and_log
    from knowledge.surfaces.mcp.routes import make_routes
    from knowledge.surfaces.mcp.surface import McpSurface
    from knowledge.toolsets.base import Registry, ToolCall, Toolset
    from knowledge.toolsets.knowledge.errors import refuse

    settings = Settings(data=Path(tempfile.mkdtemp()), embedding="none")
    configure_logging(settings)
    tools = Toolset(name="knowledge", format_error=refuse)

    async def echo(call: ToolCall, text: str) -> Any:  # noqa: ARG001
        return {"success": True, "text": text}

    echo.__doc__ = DESCRIPTION
    echo.__annotations__ = {"call": ToolCall, "text": str, "return": Any}
    tools.tool("echo", read_only=True)(echo)
    tools.tool("echo-writing")(echo)
    engine = open_engine(settings)
    surface = McpSurface(Registry([tools]), lambda _: engine)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        engine.start()
        try:
            async with surface.run():
                yield
        finally:
            engine.close()

    rest = Starlette(routes=[Route("/cpu", report_cpu)])
    router = Router(make_routes(surface), redirect_slashes=False, default=rest, lifespan=lifespan)
    return wrap_in_guard_and_log(router, settings)


def make_bare_app() -> ASGIApp:
    """Return the SDK's low-level server, set up as in its documentation."""
    import json

    import mcp_types as types
    from mcp.server.lowlevel.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        names = ("echo", "echo-writing")
        tools = [types.Tool(name=name, description=DESCRIPTION, input_schema=SCHEMA) for name in names]
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        body = {"success": True, "text": (params.arguments or {})["text"]}
        return types.CallToolResult(content=[types.TextContent(text=json.dumps(body))], structured_content=body)

    server: Server[Any] = Server(
        "bare", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda _: SCHEMA
    )
    allowed = ["127.0.0.1:*", "localhost:*"]
    security = TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=[f"http://{host}" for host in allowed])
    manager = StreamableHTTPSessionManager(server, security_settings=security)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(
        routes=[Route("/mcp", StreamableHTTPASGIApp(manager)), Route("/cpu", report_cpu)], lifespan=lifespan
    )


def make_fastmcp_app() -> ASGIApp:
    from fastmcp import FastMCP  # type: ignore[import-not-found]

    server = FastMCP("fast")

    async def echo(text: str) -> dict[str, Any]:
        return {"success": True, "text": text}

    echo.__annotations__ = {"text": str, "return": dict[str, Any]}
    server.tool(echo, name="echo", description=DESCRIPTION)
    server.tool(echo, name="echo-writing", description=DESCRIPTION)
    app = server.http_app(path="/mcp")
    app.router.routes.append(Route("/cpu", report_cpu))
    return app  # type: ignore[no-any-return]


def main() -> None:
    app = {"ours": make_our_app, "bare": make_bare_app, "fastmcp": make_fastmcp_app}[sys.argv[1]]()
    if sys.argv[1] != "ours":
        logging.disable(logging.WARNING)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="on"))
    asyncio.run(_serve(server))


async def _serve(server: uvicorn.Server) -> None:
    import socket

    taken = socket.create_server(("127.0.0.1", 0))
    print(taken.getsockname()[1], flush=True)
    await server.serve(sockets=[taken])


if __name__ == "__main__":
    main()
