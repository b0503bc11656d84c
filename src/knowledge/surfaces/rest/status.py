"""Health and status, and the verbs that look after what is kept."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from knowledge import __version__
from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.documents import file_headers, pieces
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import context_of, engine_of
from knowledge.surfaces.rest.framework.openapi import answers, streams, takes
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.wire import ReindexBody, dump_findings, dump_status
from knowledge.wire.shapes import FindingsShape, HealthShape, StatusShape

router = APIRouter(route_class=Route, tags=["status"])


async def health(request: Request) -> Response:
    """Say whether requests can be answered: 503 while starting, then 200."""
    if not context_of(request).ready():
        return answer({"status": "starting"}, 503)
    return answer({"status": "healthy", "version": __version__})


HEALTH = answers(HealthShape)
router.add_api_route("/health", health, responses={200: HEALTH[200], 503: {**HEALTH[200], "description": "Starting."}})


@router.get("/status", responses=answers(StatusShape))
async def status(request: Request) -> Response:
    """Show what the engine holds, what it is doing, and what is wrong with it."""
    return answer(dump_status(await engine_of(request).status()))


@router.post("/verify", responses=answers(FindingsShape))
async def verify(request: Request) -> Response:
    """Compare the store, the index and the files."""
    return answer(dump_findings(await engine_of(request).verify()))


@router.post("/reindex", responses=answers(HealthShape, 415, 503), openapi_extra=takes(ReindexBody, required=False))
async def reindex(request: Request) -> Response:
    """Build the index again from the store, and answer when it serves.

    With a model, the answer comes when its vectors are being made; `model.next` of the status tells how many are left.
    """
    body = await read_json(request, ReindexBody)
    await engine_of(request).reindex(body.model)
    return answer({"status": "started" if body.model else "done"})


@router.get("/backup", response_class=StreamingResponse, responses=streams())
async def backup(request: Request) -> Response:
    """Fetch everything as one archive, of one moment. For the operator alone."""
    archive = await engine_of(request).backup()
    return StreamingResponse(pieces(archive), headers=file_headers(archive.filename, archive.size))
