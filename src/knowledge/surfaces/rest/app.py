"""The FastAPI application of the REST API; `surfaces/http` adds authentication, host checks and the request log."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.resources import files

from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from knowledge import __version__
from knowledge.engine.api import Engine
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.rest import admin, collections, corpora, crawls, documents, jobs, search, status, users
from knowledge.surfaces.rest.framework.dependencies import Context, EngineFor, check_request
from knowledge.surfaces.rest.framework.errors import add_error_handlers
from knowledge.surfaces.rest.framework.middleware import PREFIX, RestMiddleware
from knowledge.surfaces.rest.framework.openapi import COMMON_STATUSES, describe, errors

DEFAULT_MAX_FILE_BYTES = 100 << 20
DOCS_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
"""Content-Security-Policy of /docs, which only reads /openapi.json."""


def make_rest_app(
    engine: Engine,
    *,
    engine_for: EngineFor | None = None,
    ready: Callable[[], bool] | None = None,
    max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
    rates: RateLimits | None = None,
    streaming: bool = True,
    trusted_only: bool = False,
) -> FastAPI:
    """Build the application: /api/v1, /health, /docs and /openapi.json; `streaming` adds contract 001's stream."""
    context = Context(engine_for or engine.as_caller, ready or (lambda: True), max_file_bytes, rates, trusted_only)
    app = FastAPI(
        title="Knowledge Server",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        dependencies=[Depends(check_request)],
    )
    app.state.context = context
    app.openapi = partial(describe, app)  # type: ignore[method-assign]
    app.add_middleware(RestMiddleware, api=app, context=context)
    add_error_handlers(app)
    routers = [
        search.router, jobs.router, documents.router, collections.router, crawls.router, users.router, corpora.router,
        admin.router, status.router,
    ]  # fmt: skip
    for router in [*routers, search.stream_router] if streaming else routers:
        app.include_router(router, prefix=PREFIX, responses=errors(*COMMON_STATUSES))
    app.include_router(status.health_router, prefix=PREFIX)
    app.add_api_route("/health", status.health, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_route("/docs", docs_page, include_in_schema=False)
    return app


async def docs_page(_: Request) -> Response:
    return HTMLResponse(_docs_html(), headers={"Content-Security-Policy": DOCS_POLICY})


@cache
def _docs_html() -> str:
    return files("knowledge.surfaces.rest").joinpath("docs.html").read_text(encoding="utf-8")
