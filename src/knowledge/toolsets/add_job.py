"""How a tool adds a file: accepted as a job, waited for where that is wanted, withdrawn where the caller leaves."""

from __future__ import annotations

from uuid import UUID

import anyio
from anyio.lowlevel import checkpoint

from knowledge.engine.api import Engine
from knowledge.errors import InvalidParameter, NotFound, NotNow
from knowledge.model import Job, JobKind, JobStatus, Json, NewDocument
from knowledge.toolsets.base import ToolCall

WITHDRAW_SECONDS = 5.0


async def add_document(engine: Engine, new: NewDocument) -> Job:
    """The job of a new document; a caller who leaves meanwhile takes it back."""
    with anyio.CancelScope(shield=True):  # half an add is none: it ends, and is then withdrawn
        job = await engine.add(new)
    try:
        await checkpoint()
    except anyio.get_cancelled_exc_class():
        await cancel_job(engine, job.uid)
        raise
    return job


async def wait_for_job(call: ToolCall, job: UUID) -> Job:
    """The job when it has ended, or as it stands when the wait is over; a caller who leaves takes it back."""
    try:
        return await call.engine.wait(job, call.limits.wait_s, call.report)
    except anyio.get_cancelled_exc_class():
        await cancel_job(call.engine, job)
        raise


async def cancel_job(engine: Engine, job: UUID) -> None:
    with anyio.move_on_after(WITHDRAW_SECONDS, shield=True):
        try:
            await engine.cancel(job)
        except (NotFound, NotNow):  # it had ended, or never began
            return


def was_unpacked(job: Job) -> bool:
    """An archive ends without a document of its own: what was in it goes on as jobs."""
    return job.kind is JobKind.UNPACK and job.status is JobStatus.COMPLETED


def split_title_and_tags(metadata: Json) -> tuple[str | None, tuple[str, ...], Json]:
    """Title and tags that stand in a caller's metadata are the document's own; the rest stays metadata."""
    rest = {key: value for key, value in metadata.items() if key not in ("title", "tags")}
    title, tags = metadata.get("title"), metadata.get("tags")
    if title is not None and not isinstance(title, str):
        raise InvalidParameter("Invalid value for 'metadata.title': must be a string", parameter="metadata.title")
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    words = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    if tags is not None and (not isinstance(tags, list) or len(words) != len(tags)):
        raise InvalidParameter(
            "Invalid value for 'metadata.tags': must be an array of strings", parameter="metadata.tags"
        )
    return title or None, tuple(dict.fromkeys(word.strip() for word in words if word.strip())), rest
