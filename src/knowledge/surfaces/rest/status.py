"""Health and status, and the verbs that look after what is kept."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Response
from starlette.responses import StreamingResponse

from knowledge import __version__
from knowledge.surfaces.rest.documents import file_headers, pieces
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine
from knowledge.surfaces.rest.framework.openapi import BYTES, ResponseModel, errors
from knowledge.wire import FindingsShape, HealthShape, ReindexBody, StatusShape

router = APIRouter(tags=["status"])
health_router = APIRouter(tags=["status"])


@health_router.get("/health", responses={503: {"model": HealthShape, "description": "Starting."}})
async def health(context: AppContext, response: Response) -> ResponseModel[HealthShape]:
    """Say whether requests can be answered: 503 while starting, then 200."""
    if not context.ready():
        response.status_code = 503
        return {"status": "starting"}
    return {"status": "healthy", "version": __version__}


@router.get("/status")
async def status(engine: CallerEngine) -> ResponseModel[StatusShape]:
    """Show what the engine holds, what it is doing, and what is wrong with it."""
    return StatusShape.from_status(await engine.status())


@router.post("/verify")
async def verify(engine: CallerEngine) -> ResponseModel[FindingsShape]:
    """Compare the store, the index and the files."""
    return FindingsShape.from_findings(await engine.verify())


@router.post("/reindex", responses=errors(415))
async def reindex(
    engine: CallerEngine, body: Annotated[ReindexBody, Body(default_factory=ReindexBody)]
) -> ResponseModel[HealthShape]:
    """Build the index again from the store, and answer when it serves.

    With a model, the answer comes when its vectors are being made; `model.next` of the status tells how many are left.
    """
    await engine.reindex(body.model)
    return {"status": "started" if body.model else "done"}


@router.get("/backup", response_class=StreamingResponse, responses=BYTES)
async def backup(engine: CallerEngine) -> StreamingResponse:
    """Fetch everything as one archive, of one moment. For the operator alone."""
    archive = await engine.backup()
    return StreamingResponse(pieces(archive), headers=file_headers(archive.filename, archive.size))
