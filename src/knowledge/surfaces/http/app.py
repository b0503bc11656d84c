"""The one HTTP application: REST, MCP and pages over one engine, behind one door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing

from fastapi import FastAPI
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.surfaces.http.auth import Keys, Side, judge_of
from knowledge.surfaces.http.guard import side_of
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.http.server import front
from knowledge.surfaces.http.services import Services
from knowledge.surfaces.mcp.call_limits import limits, limits_of_accounts
from knowledge.surfaces.mcp.routes import McpSurface
from knowledge.surfaces.rest import rest_app
from knowledge.toolsets import registry


def http_app(engine: Engine, settings: Settings, ready: Callable[[], bool] | None = None) -> ASGIApp:
    """Everything that is served on one address, as the world meets it."""
    rates = RateLimits.of(settings)
    services = Services(engine, settings)
    mcp = McpSurface(
        registry(), engine.as_caller, limits=limits(settings), limits_of_accounts=limits_of_accounts(settings),
        toolsets=settings.toolsets, services=services.by_kind, rates=rates,
        sessions_per_caller=settings.max_sessions_per_caller,
    )  # fmt: skip
    app = rest_app(
        engine, ready=ready, max_file_bytes=settings.max_file_bytes, rates=rates,
        streaming="manager" in mcp.views.allowed,
    )  # fmt: skip
    keep_running(app, mcp, services, rates)
    return front(Doors(mcp.routes, app), settings, Keys.of(settings, judge_of(engine)), rates)


class Doors:
    """MCP has doors of its own, so that a call need not pass through all that REST wants; the rest goes on to REST."""

    def __init__(self, routes: Sequence[BaseRoute], app: ASGIApp) -> None:
        self._app = app
        self._router = Router(routes, redirect_slashes=False, default=app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        to_mcp = scope["type"] != "lifespan" and side_of(scope["path"]) in (Side.MCP, Side.MANAGER)
        await (self._router if to_mcp else self._app)(scope, receive, send)


def keep_running(app: FastAPI, mcp: McpSurface, services: Services, rates: RateLimits) -> None:
    """Keep the sessions of MCP, and what the tools share, for as long as the application runs."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with closing(rates):
            async with services.running(), mcp.running():
                yield

    app.router.lifespan_context = lifespan
