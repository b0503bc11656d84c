"""Contract 000's tasks: how a job is shown, and how it is cancelled."""

from __future__ import annotations

from datetime import UTC, datetime

from knowledge import errors
from knowledge.errors import BY_CODE, KnowledgeError
from knowledge.model import Job, JobStatus, Json
from knowledge.toolsets.base import Answered, Call, Refused, nearest
from knowledge.toolsets.knowledge.errors import ERRORS, as_ref, refuse, warnings

STATES = {JobStatus.PROCESSING: "running", JobStatus.PARTIAL: "completed"}


def state(job: Job) -> str:
    return STATES.get(job.status, job.status.value)


def elapsed(job: Job) -> float:
    end = job.completed_at or datetime.now(UTC)
    return round(max((end - (job.started_at or job.created_at)).total_seconds(), 0.0), 2)


def running(job: Job, seconds_left: float) -> Json:
    return {
        "success": True, "task_id": str(job.uid), "status": state(job), "progress": job.progress,
        "current_step": job.step or "Waiting", "completed_steps": job.done, "total_steps": job.total,
        "elapsed_time_seconds": elapsed(job), "estimated_remaining_seconds": seconds_left,
    }  # fmt: skip


def ended(job: Job) -> Answered:
    came_to_nothing = job.error is not None or job.status is JobStatus.CANCELLED
    return failed(job) if came_to_nothing else completed(job)


async def task(call: Call, task_id: str) -> Job:
    ref = as_ref(task_id)
    if ref is None:
        raise errors.InvalidParameter("Invalid value for 'task_id': must be a UUID", parameter="task_id")
    try:
        return await call.engine.job(ref)
    except errors.JobNotFound:
        raise errors.JobNotFound(
            f"Task with ID '{task_id}' not found", hint="Use the task_id that knowledge-add answered.", task_id=task_id
        ) from None


def completed(job: Job) -> Json:
    document = str(job.document_uid) if job.document_uid else None
    result: Json = {"document_id": document, "filename": job.filename, "chunks_created": job.chunk_count}
    answer: Json = {
        "success": True, "task_id": str(job.uid), "status": "completed", "progress": 1.0, "result": result,
        "total_time_seconds": elapsed(job),
    }  # fmt: skip
    return {**answer, **warnings(job.warnings)}


def failed(job: Job) -> Refused:
    """A task that came to nothing, and why."""
    if job.error is None:
        word, message, facts = "cancelled", "The task was cancelled; nothing of it remains", {}
    else:
        word = nearest(BY_CODE.get(job.error.code, errors.Internal), ERRORS)
        message, facts = job.error.message, {"hint": job.error.hint} if job.error.hint else {}
    return Refused(
        {
            "success": False, "task_id": str(job.uid), "status": state(job), "error": word, "message": message,
            "elapsed_time_seconds": elapsed(job), "filename": job.filename, **facts,
        },
        code=word,
    )  # fmt: skip


async def cancel(call: Call, task_id: str) -> Answered:
    """`tools/cancel`: stop a task and take back what it had done."""
    try:
        job = await call.engine.cancel((await task(call, task_id)).uid)
    except KnowledgeError as error:
        return refuse(error)
    return {"success": True, "task_id": str(job.uid), "status": state(job), "message": "Task cancelled"}
