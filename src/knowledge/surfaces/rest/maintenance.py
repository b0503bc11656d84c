"""Routes that start a check, an index rebuild or a backup as a job, and the download of the archive."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import StreamingResponse

from knowledge.model import Job
from knowledge.surfaces.rest.documents import file_headers, pieces
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import FILE_RESPONSE, Id, ResponseModel, errors

router = APIRouter(tags=["maintenance"], prefix="/maintenance")


@router.post("/verify", status_code=202, responses=errors(409))
async def verify(engine: CallerEngine) -> ResponseModel[Job]:
    """Start a job that compares database, index and originals; its warnings are the findings. Admins only.

    An admin's job says how many findings there are; the operator's says which.
    """
    return await engine.maintenance.verify()


@router.post("/reindex", status_code=202, responses=errors(409))
async def reindex(engine: CallerEngine) -> ResponseModel[Job]:
    """Start a job that rebuilds the index of this server, which answers searches meanwhile. Admins only."""
    return await engine.maintenance.reindex()


@router.post("/backup", status_code=202, responses=errors(409))
async def backup(engine: CallerEngine) -> ResponseModel[Job]:
    """Start a job that writes an archive into the folder `backups` of the data folder. Operator only.

    The newest three archives are kept. `GET /backup` sends one at once, without a file on the server.
    """
    return await engine.maintenance.backup()


@router.get("/backup/{id}", response_class=StreamingResponse, responses={**FILE_RESPONSE, **errors(404)})
async def archive(id: Id, engine: CallerEngine) -> StreamingResponse:
    """Download the archive that a backup job has written; `id` is that of the job. Operator only."""
    found = await engine.maintenance.archive(id)
    return StreamingResponse(pieces(found), headers=file_headers(found.filename, found.size))
