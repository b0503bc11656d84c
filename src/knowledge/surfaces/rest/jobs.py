"""Routes for jobs: POST /jobs adds a file or a note, the others list, cancel and retry jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query

from knowledge.model import Job, JobStatus, NewFile, NewNote, RetryResult
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.forms import read_note_or_file
from knowledge.surfaces.rest.framework.openapi import NOTE_OR_FORM_BODY, Id, ResponseModel, errors
from knowledge.wire import AcceptedShape, JobListing, JobsShape
from knowledge.wire.jobs import RetryBody

router = APIRouter(tags=["jobs"], prefix="/jobs")


@router.post("", status_code=202, responses=errors(404, 409, 415), openapi_extra=NOTE_OR_FORM_BODY)
async def add(
    engine: CallerEngine, new: Annotated[NewNote | NewFile, Depends(read_note_or_file, scope="function")]
) -> ResponseModel[AcceptedShape]:
    """Add a file or a note; the response has the job that processes it. Known bytes are a duplicate (409)."""
    return AcceptedShape.from_job(await engine.add(new))


@router.get("")
async def jobs(engine: CallerEngine, wanted: Annotated[JobListing, Query()]) -> ResponseModel[JobsShape]:
    """List jobs, newest first."""
    return JobsShape.from_page(await engine.jobs(wanted.to_filter()))


@router.post("/retry", responses=errors(415))
async def retry_all(
    engine: CallerEngine, body: Annotated[RetryBody, Body(default_factory=RetryBody)]
) -> ResponseModel[RetryResult]:
    """Queue all failed or all cancelled jobs again, at most 1000; those that cannot be are named with the reason."""
    return await engine.retry_all(JobStatus(body.status))


@router.get("/{id}", responses=errors(404))
async def job(id: Id, engine: CallerEngine) -> ResponseModel[Job]:
    """Get a job by id or UUID.

    `progress` rises from 0 to 1 over all steps; `done` and `total` count the `unit` of the current step.
    """
    return await engine.job(id)


@router.post("/{id}/cancel", responses=errors(404, 409))
async def cancel(id: Id, engine: CallerEngine) -> ResponseModel[Job]:
    """Cancel a job and undo its changes."""
    return await engine.cancel(id)


@router.post("/{id}/retry", responses=errors(404, 409))
async def retry(id: Id, engine: CallerEngine) -> ResponseModel[Job]:
    """Queue a failed or cancelled job again."""
    return await engine.retry(id)
