"""The FastAPI application of the REST API; `surfaces/http` adds authentication, host checks and the request log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from importlib.resources import files

from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from knowledge.engine.api import Engine
from knowledge.surfaces.http.guard import METRICS_PATH
from knowledge.surfaces.http.page_headers import asset_response, page_response
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.http.tool_runner import ToolRunner
from knowledge.surfaces.rest import (
    admin,
    agents,
    collections,
    corpora,
    crawls,
    documents,
    events,
    insight,
    jobs,
    library,
    maintenance,
    pages,
    search,
    sessions,
    status,
    tokens,
    users,
)
from knowledge.surfaces.rest.framework.dependencies import Context, EngineFor, check_request
from knowledge.surfaces.rest.framework.errors import add_error_handlers
from knowledge.surfaces.rest.framework.middleware import PREFIX, Compression, RestMiddleware
from knowledge.surfaces.rest.framework.openapi import COMMON_STATUSES, describe, errors
from knowledge.version import __version__

DEFAULT_MAX_FILE_BYTES = 100 << 20
DOCS_ASSETS = {"docs.js": "text/javascript", "docs.css": "text/css", "icon.svg": "image/svg+xml"}
"""Files of the page /docs below /docs/, with their media types."""


def make_rest_app(
    engine: Engine,
    *,
    engine_for: EngineFor | None = None,
    ready: Callable[[], bool] | None = None,
    max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
    rates: RateLimits | None = None,
    streaming: bool = True,
    trusted_only: bool = False,
    is_operator_key: Callable[[str], bool] = lambda key: False,  # noqa: ARG005
    tools: ToolRunner | None = None,
) -> FastAPI:
    """Build the application: /api/v1, /health, /docs and /openapi.json; `streaming` adds contract 001's stream."""
    context = Context(
        engine_for or engine.as_caller, ready or (lambda: True), max_file_bytes, rates, is_operator_key, trusted_only,
        tools,
    )  # fmt: skip
    app = FastAPI(
        title="Knowledge Server",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        dependencies=[Depends(check_request)],
    )
    app.state.context, app.state.streams = context, Counter()
    app.openapi = partial(describe, app)  # type: ignore[method-assign]
    app.add_middleware(RestMiddleware, api=app, context=context)
    app.add_middleware(Compression)
    add_error_handlers(app)
    routers = [
        search.router, jobs.router, library.router, documents.router, pages.router, library.map_router,
        collections.router, crawls.router, users.router, corpora.router, admin.router, status.router, events.router,
        sessions.router, sessions.admin_router, agents.router, insight.router, tokens.router, tokens.admin_router,
        maintenance.router,
    ]  # fmt: skip
    for router in [*routers, search.stream_router] if streaming else routers:
        app.include_router(router, prefix=PREFIX, responses=errors(*COMMON_STATUSES))
    app.include_router(status.health_router, prefix=PREFIX)
    app.add_api_route("/health", status.health, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/ready", status.check_ready, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route(METRICS_PATH, status.metrics, include_in_schema=False)
    app.add_route("/docs", docs_page, include_in_schema=False)
    for name in DOCS_ASSETS:
        app.add_route(f"/docs/{name}", docs_asset, include_in_schema=False)
    return app


async def docs_page(_: Request) -> Response:
    return page_response(_read_docs_file("index.html"))


async def docs_asset(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    return asset_response(_read_docs_file(name), DOCS_ASSETS[name])


@cache
def _read_docs_file(name: str) -> bytes:
    return files("knowledge.surfaces.rest").joinpath("docs_page", name).read_bytes()
