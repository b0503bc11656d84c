"""Runs the application on a loopback socket, for tests that use it through real clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.surfaces.http.connections import ConnectionLimits
from knowledge.surfaces.http.server import make_server, open_sockets, wrap_in_guard_and_log
from knowledge.surfaces.http.toolset_services import ToolsetServices
from knowledge.surfaces.mcp.call_limits import make_server_links
from knowledge.surfaces.mcp.routes import make_routes
from knowledge.surfaces.mcp.server import KnowledgeServer
from knowledge.surfaces.mcp.surface import McpSurface
from knowledge.toolsets import make_registry
from knowledge.toolsets.base import CallLimits, Registry
from knowledge.toolsets.file_access import AllowedFolders


def make_app(
    engine: Engine,
    settings: Settings,
    folder: Path,
    *,
    tools: Registry | None = None,
    extend: Callable[[KnowledgeServer], None] | None = None,
) -> ASGIApp:
    """Return the MCP surface over a real engine, behind its guard, with `folder` as the only allowed folder."""
    limits = CallLimits(
        max_file_bytes=settings.max_file_bytes,
        wait_s=settings.wait_s,
        folders=AllowedFolders.from_setting("", [folder]),
        answer_chars=settings.answer_chars,
        min_relevance=settings.min_relevance,
        trusted_only=settings.trusted_only,
    )
    services = ToolsetServices(engine, settings)
    surface = McpSurface(
        tools or make_registry(),
        lambda _: engine,
        limits=limits,
        links=make_server_links(settings),
        toolsets=settings.toolsets,
        services=services.by_type,
    )
    if extend is not None:
        extend(surface.server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with services.run(), surface.run():
            yield

    return wrap_in_guard_and_log(Starlette(routes=make_routes(surface), lifespan=lifespan), settings)


LIMITS = ConnectionLimits(header_s=600, keep_alive_s=600)
"""Keeps idle connections open while a test runs. With the default of five seconds a busy machine closes one while the
client sends on it, and an HTTP client may not repeat a POST by itself."""


def _make_server(app: ASGIApp) -> uvicorn.Server:
    server = make_server(app, LIMITS)
    server.config.timeout_graceful_shutdown = 1  # event streams of sessions stay open until then
    return server


@asynccontextmanager
async def serve_app(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """Serve an application and yield its URL; the socket already accepts connections."""
    sockets = open_sockets("127.0.0.1", port)
    server = _make_server(app)
    task = asyncio.create_task(server.serve(sockets=sockets))
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        for socket in sockets:
            socket.close()


@contextmanager
def serve_app_in_thread(app: ASGIApp) -> Iterator[str]:
    """Serve an application in a thread, for tests that have event loops of their own."""
    sockets = open_sockets("127.0.0.1", 0)
    server = _make_server(app)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)), name="app-server")
    thread.start()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        for socket in sockets:
            socket.close()
