"""Routes for health, status and maintenance."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Body, Response
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Scope

from knowledge.engine.permissions import is_operator, operator_required
from knowledge.errors import Starting, Unavailable
from knowledge.model import Caller, EngineStatus, RereadStatus
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.rest.documents import file_headers, pieces
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine, EngineFor
from knowledge.surfaces.rest.framework.openapi import FILE_RESPONSE, ResponseModel, errors
from knowledge.version import __version__
from knowledge.wire import FindingsShape, HealthShape, ReindexBody, StatusShape

router = APIRouter(tags=["status"])
health_router = APIRouter(tags=["status"])


@health_router.get("/health", responses={503: {"model": HealthShape, "description": "Starting."}})
async def health(context: AppContext, response: Response) -> ResponseModel[HealthShape]:
    """Check whether the server can answer requests: 503 while it starts, then 200."""
    if not context.ready():
        response.status_code = 503
        return {"status": "starting"}
    return {"status": "healthy", "version": __version__}


@health_router.get("/ready", responses=errors(503))
async def check_ready(context: AppContext) -> ResponseModel[HealthShape]:
    """Check whether a load balancer may send requests to this server: 503 until its index has caught up, then 200."""
    if not context.ready():
        raise Starting("The server is starting")
    await context.engine_for(Caller()).check_ready()
    return {"status": "ready", "version": __version__}


async def metrics(request: Request, context: AppContext) -> Response:
    """Get the metrics of this server in Prometheus text. Operator only."""
    return await answer_metrics(request.scope, context.engine_for, context.ready)


async def answer_metrics(scope: Scope, engine_for: EngineFor, ready: Callable[[], bool]) -> Response:
    """Answer a scrape, also while the engine starts or its database is away; raises AdminRequired for an account."""
    caller = caller_of(scope)
    if not is_operator(caller):
        raise operator_required()
    status: EngineStatus | None = None
    with suppress(Unavailable):
        status = await engine_for(caller).status() if ready() else None
    from knowledge.telemetry import prometheus  # imports prometheus-client

    prometheus.start_recording()
    text = await anyio.to_thread.run_sync(prometheus.render_metrics, status)
    return Response(text, media_type=prometheus.CONTENT_TYPE)


@router.get("/status")
async def status(engine: CallerEngine) -> ResponseModel[StatusShape]:
    """Get the status of the engine: number of documents, running jobs, model, problems."""
    return StatusShape.from_status(await engine.status())


@router.post("/verify")
async def verify(engine: CallerEngine) -> ResponseModel[FindingsShape]:
    """Check that store, index and files are consistent."""
    return FindingsShape.from_findings(await engine.verify())


@router.post("/reindex", responses=errors(415))
async def reindex(
    engine: CallerEngine, body: Annotated[ReindexBody, Body(default_factory=ReindexBody)]
) -> ResponseModel[HealthShape]:
    """Rebuild the index from the store; the response is sent when the new index is in use.

    With a model, the response is sent when embedding starts; `model.next` of the status has the remaining number.
    """
    await engine.reindex(body.model)
    return {"status": "started" if body.model else "done"}


@router.post("/reread")
async def reread(engine: CallerEngine) -> ResponseModel[RereadStatus]:
    """Queue jobs that read scans and images again, for the boxes of their words; admins only."""
    return await engine.reread()


@router.get("/reread")
async def reread_status(engine: CallerEngine) -> ResponseModel[RereadStatus]:
    """Count the jobs that read documents again and have not ended; admins only."""
    return await engine.reread(start=False)


@router.get("/backup", response_class=StreamingResponse, responses=FILE_RESPONSE)
async def backup(engine: CallerEngine) -> StreamingResponse:
    """Download a consistent backup of all data as one archive. Operator only."""
    archive = await engine.backup()
    return StreamingResponse(pieces(archive), headers=file_headers(archive.filename, archive.size))
