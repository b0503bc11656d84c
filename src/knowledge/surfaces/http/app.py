"""The HTTP application: REST, MCP and pages over one engine, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError, Starting
from knowledge.model import Caller
from knowledge.surfaces.http.auth import Authenticator, choose_account_lookup
from knowledge.surfaces.http.guard import METRICS_PATH, wrap_in_guard
from knowledge.surfaces.http.logs import RequestLog
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.http.responses import error_response
from knowledge.surfaces.http.server import wrap_in_guard_and_log
from knowledge.surfaces.http.tool_runner import ToolRunner
from knowledge.surfaces.http.toolset_services import ToolsetServices
from knowledge.surfaces.mcp.call_limits import make_account_limits, make_call_limits, make_server_links
from knowledge.surfaces.mcp.routes import make_routes
from knowledge.surfaces.mcp.surface import McpSurface
from knowledge.surfaces.oauth.challenge import BearerChallenge
from knowledge.surfaces.oauth.resources import ProtectedResources
from knowledge.surfaces.oauth.routes import make_oauth_routes
from knowledge.surfaces.oauth.verifier import make_token_verifier
from knowledge.surfaces.rest import make_rest_app
from knowledge.surfaces.rest.status import answer_metrics
from knowledge.surfaces.web.pages import make_page_routes
from knowledge.telemetry import prometheus
from knowledge.toolsets import make_registry
from knowledge.version import __version__


def make_worker_app(engine: Engine, settings: Settings, ready: Callable[[], bool]) -> ASGIApp:
    """Build the application of a server that only runs jobs: /health, /ready and /metrics."""
    prometheus.start_recording()

    async def health(_: Request) -> Response:
        if not ready():
            return JSONResponse({"status": "starting"}, 503)
        return JSONResponse({"status": "healthy", "version": __version__})

    async def check_ready(request: Request) -> Response:
        try:
            if not ready():
                raise Starting("The server is starting")
            await engine.as_caller(Caller()).check_ready()
        except KnowledgeError as error:
            return error_response(request.url.path, error)
        return JSONResponse({"status": "ready", "version": __version__})

    async def metrics(request: Request) -> Response:
        try:
            return await answer_metrics(request.scope, engine.as_caller, ready)
        except KnowledgeError as error:
            return error_response(request.url.path, error)

    routes = [Route("/health", health), Route("/ready", check_ready), Route(METRICS_PATH, metrics)]
    return wrap_in_guard_and_log(Starlette(routes=routes), settings)


def make_http_app(engine: Engine, settings: Settings, ready: Callable[[], bool] | None = None) -> ASGIApp:
    """Build the application with REST, MCP and pages, including authentication, rate limits and the request log."""
    prometheus.start_recording()
    rates = RateLimits.from_settings(settings)
    services = ToolsetServices(engine, settings)
    registry, limits, account_limits = make_registry(), make_call_limits(settings), make_account_limits(settings)
    links = make_server_links(settings)
    mcp = McpSurface(
        registry,
        engine.as_caller,
        limits=limits,
        account_limits=account_limits,
        links=links,
        toolsets=settings.toolsets,
        services=services.by_type,
        rates=rates,
        sessions_per_caller=settings.max_sessions_per_caller,
        reports_agents=settings.engine_url is None,  # an engine elsewhere may be another product
    )
    resources = ProtectedResources.for_toolsets(settings.public_origin, mcp.selection.allowed)
    authenticator = Authenticator.from_settings(
        settings, choose_account_lookup(engine), engine.sessions.find,
        make_token_verifier(engine, resources, settings), engine.oauth.find_token,
    )  # fmt: skip
    app = make_rest_app(
        engine, ready=ready, max_file_bytes=settings.max_file_bytes, rates=rates,
        streaming="manager" in mcp.selection.allowed, trusted_only=settings.trusted_only,
        is_operator_key=authenticator.is_operator_key,
        tools=ToolRunner(registry, mcp.selection, limits, account_limits, services.by_type, links, rates),
    )  # fmt: skip

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        """Run the MCP sessions and the services of the toolsets while the application runs."""
        with closing(rates):
            async with services.run(), mcp.run():
                yield

    # Outside of the FastAPI application, because REST's middleware does not apply to MCP and to the page.
    pages = make_page_routes() if settings.page else []
    oauth = make_oauth_routes(engine, resources, rates, settings.oauth_issuer) if settings.oauth else []
    router = Router([*make_routes(mcp), *oauth, *pages], redirect_slashes=False, default=app, lifespan=lifespan)
    guarded = wrap_in_guard(router, settings, authenticator, rates, mcp.report_refusal)
    return RequestLog(BearerChallenge(guarded, resources) if settings.oauth else guarded)
