"""Routes for health, status and maintenance."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Response
from starlette.responses import StreamingResponse

from knowledge.errors import Starting
from knowledge.model import Caller, RereadStatus
from knowledge.surfaces.rest.documents import file_headers, pieces
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine
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
