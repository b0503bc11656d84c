"""The REST application over an engine. Keys, hosts and logs are put around it where it is served."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from knowledge import __version__
from knowledge.engine.api import Engine
from knowledge.model import Caller
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.http.responses import refusal
from knowledge.surfaces.rest import (
    admin,
    collections,
    corpora,
    crawls,
    docs,
    documents,
    jobs,
    notes,
    search,
    status,
    stream,
    users,
)
from knowledge.surfaces.rest.framework.context import Context, EngineFor
from knowledge.surfaces.rest.framework.fast_path import Application
from knowledge.surfaces.rest.framework.openapi import describe
from knowledge.surfaces.rest.framework.rate_classes import PREFIX
from knowledge.surfaces.rest.framework.routes import in_our_words

DEFAULT_MAX_FILE_BYTES = 100 << 20


def rest_app(
    engine: Engine,
    *,
    engine_for: EngineFor | None = None,
    ready: Callable[[], bool] | None = None,
    max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
    rates: RateLimits | None = None,
    streaming: bool = True,
) -> FastAPI:
    """Everything under /api/v1, and /health, /docs and /openapi.json beside it; the stream where 001 is served."""

    def as_caller(caller: Caller) -> Engine:
        return engine.as_caller(caller)

    app = Application(
        title="Knowledge Server", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.context = Context(engine_for or as_caller, ready or (lambda: True), max_file_bytes, rates)
    app.add_exception_handler(HTTPException, _http_refusal)
    app.openapi = partial(describe, app)  # type: ignore[method-assign]
    rooms = (search, jobs, documents, notes, collections, crawls, users, corpora, admin, status)
    app.include_rooms((room.router for room in (*rooms, stream) if streaming or room is not stream), PREFIX)
    app.add_api_route("/health", status.health, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_route("/docs", docs.page, include_in_schema=False)
    return app


async def _http_refusal(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself, in our words."""
    assert isinstance(error, HTTPException)
    return refusal(in_our_words(request, error))
