"""The product on a real socket, for tests that drive it as its clients do."""

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
from knowledge.surfaces.http.server import front, listen, make_server
from knowledge.surfaces.http.services import Services
from knowledge.surfaces.mcp.routes import McpSurface
from knowledge.surfaces.mcp.server import KnowledgeServer
from knowledge.toolsets import registry
from knowledge.toolsets.base import Limits, Registry
from knowledge.toolsets.paths import Folders


def application(
    engine: Engine,
    settings: Settings,
    folder: Path,
    *,
    tools: Registry | None = None,
    extend: Callable[[KnowledgeServer], None] | None = None,
) -> ASGIApp:
    """The MCP surface over a real engine, behind its guard; files may be opened below `folder`."""
    limits = Limits(
        max_file_bytes=settings.max_file_bytes, wait_s=settings.wait_s, folders=Folders.named("", [folder])
    )  # fmt: skip
    services = Services(engine, settings)
    surface = McpSurface(
        tools or registry(),
        lambda _: engine,
        limits=limits,
        toolsets=settings.toolsets,
        services=services.by_kind,
    )
    if extend is not None:
        extend(surface.server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with services.running(), surface.running():
            yield

    return front(Starlette(routes=surface.routes, lifespan=lifespan), settings)


def _server(app: ASGIApp) -> uvicorn.Server:
    server = make_server(app)
    server.config.timeout_graceful_shutdown = 1  # streams of older clients stay open until they are cut
    return server


@asynccontextmanager
async def serving(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """Serve an application; gives its address, at which callers may already queue."""
    sockets = listen("127.0.0.1", port)
    server = _server(app)
    task = asyncio.create_task(server.serve(sockets=sockets))
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        for socket in sockets:
            socket.close()


@contextmanager
def serving_beside(app: ASGIApp) -> Iterator[str]:
    """The same on a thread of its own, so that many tests with loops of their own can share it."""
    sockets = listen("127.0.0.1", 0)
    server = _server(app)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)), name="served")
    thread.start()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        for socket in sockets:
            socket.close()
