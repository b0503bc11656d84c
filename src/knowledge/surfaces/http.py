"""The one HTTP application: REST, MCP and pages over one engine, behind one door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.remote import RemoteEngine
from knowledge.model import Caller
from knowledge.surfaces.mcp.limits import limits
from knowledge.surfaces.mcp.surface import McpSurface
from knowledge.surfaces.rest import rest_app
from knowledge.surfaces.server import front
from knowledge.surfaces.services import Services
from knowledge.toolsets import registry


def http_app(engine: Engine, settings: Settings, ready: Callable[[], bool] | None = None) -> ASGIApp:
    """Everything that is served on one address, as the world meets it."""

    def engine_for(caller: Caller) -> Engine:
        # An engine elsewhere judges an account's key itself.
        return engine.bearing(caller.key) if caller.key and isinstance(engine, RemoteEngine) else engine

    app = rest_app(engine, engine_for=engine_for, ready=ready, max_file_bytes=settings.max_file_bytes)
    services = Services(engine, settings)
    mcp = McpSurface(
        registry(), engine_for, limits=limits(settings), toolsets=settings.toolsets, services=services.by_kind
    )
    add_mcp(app, mcp, services)
    return front(app, settings)


def add_mcp(app: FastAPI, mcp: McpSurface, services: Services) -> None:
    """Put the MCP routes beside the others, and keep its sessions running for as long as the application does."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with services.running(), mcp.running():
            yield

    app.router.routes.extend(mcp.routes)
    app.router.lifespan_context = lifespan
