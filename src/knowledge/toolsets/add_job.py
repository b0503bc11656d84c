"""Adds documents for tools: creates the job, waits for it, and cancels it if the caller disconnects."""

from __future__ import annotations

from uuid import UUID

import anyio
from anyio.lowlevel import checkpoint

from knowledge.engine.api import Engine
from knowledge.errors import InvalidParameter, NotFound, NotNow
from knowledge.model import Job, JobKind, JobStatus, Json, NewDocument
from knowledge.toolsets.base import COMPLETED_STEP, ToolCall

CANCEL_SECONDS = 5.0


async def add_document(engine: Engine, new: NewDocument) -> Job:
    """Add a document and return its job; cancel the job if the caller disconnects meanwhile."""
    with anyio.CancelScope(shield=True):  # an interrupted add would leave a job whose id is lost
        job = await engine.add(new)
    try:
        await checkpoint()
    except anyio.get_cancelled_exc_class():
        await cancel_job(engine, job.uid)
        raise
    return job


async def wait_for_job(call: ToolCall, job: UUID) -> Job:
    """Wait for a job, at most `wait_s` seconds, and return it; cancel it if the caller disconnects meanwhile."""
    try:
        ended = await call.engine.wait(job, call.limits.wait_s, call.report)
    except anyio.get_cancelled_exc_class():
        await cancel_job(call.engine, job)
        raise
    report_completion(call, ended)
    return ended


def report_completion(call: ToolCall, job: Job) -> None:
    """End the progress of a call whose job succeeded; that of a failed or running job ends below the total."""
    if job.status in (JobStatus.COMPLETED, JobStatus.PARTIAL):
        call.report(COMPLETED_STEP, 1, 1)


async def cancel_job(engine: Engine, job: UUID) -> None:
    with anyio.move_on_after(CANCEL_SECONDS, shield=True):
        try:
            await engine.cancel(job)
        except (NotFound, NotNow):  # it has ended, or was never created
            return


def was_unpacked(job: Job) -> bool:
    """Return whether the job unpacked an archive; it has no document, its files are added by further jobs."""
    return job.kind is JobKind.UNPACK and job.status is JobStatus.COMPLETED


def split_title_and_tags(metadata: Json) -> tuple[str | None, tuple[str, ...], Json]:
    """Split a caller's metadata into title, tags and the remaining metadata."""
    rest = {key: value for key, value in metadata.items() if key not in ("title", "tags")}
    title, tags = metadata.get("title"), metadata.get("tags")
    if title is not None and not isinstance(title, str):
        raise InvalidParameter("Invalid value for 'metadata.title': must be a string", parameter="metadata.title")
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    names = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    if tags is not None and (not isinstance(tags, list) or len(names) != len(tags)):
        raise InvalidParameter(
            "Invalid value for 'metadata.tags': must be an array of strings", parameter="metadata.tags"
        )
    return title or None, tuple(dict.fromkeys(name.strip() for name in names if name.strip())), rest
