"""Tasks of contract 000: format, cancellation and time estimates of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from knowledge import errors
from knowledge.engine.api import Engine
from knowledge.error_codes import ERRORS_BY_CODE
from knowledge.errors import KnowledgeError
from knowledge.model import DocumentFilter, Job, JobFilter, JobKind, JobStatus, Json, now
from knowledge.toolsets.base import Refusal, ToolCall, ToolResult, find_nearest
from knowledge.toolsets.knowledge.errors import ERROR_CODES, dump_warnings, refuse
from knowledge.toolsets.values import format_status, parse_ref

BYTES_PER_MEGABYTE = 1 << 20

FAMILY_BY_TYPE = {
    "pdf": "pages", "docx": "pages", "pptx": "pages", "xlsx": "pages", "doc": "pages", "ppt": "pages", "xls": "pages",
    "odt": "pages", "odp": "pages", "ods": "pages", "epub": "pages", "rtf": "pages",
    "jpg": "image", "jpeg": "image", "png": "image", "gif": "image", "bmp": "image", "tif": "image", "tiff": "image",
    "webp": "image",
}  # fmt: skip

PRIOR_SECONDS_PER_MEGABYTE = {"text": 25.0, "pages": 4.0, "image": 6.0}
"""Estimate before any document was processed on this machine."""
PRIOR_BYTES = BYTES_PER_MEGABYTE // 4
"""Weight of the prior in bytes of evidence (shrinkage estimate)."""
DEFAULT_SECONDS = 2.0
"""Estimate for one queued document before any was processed."""
MIN_SECONDS = 0.2
"""Time for queueing, publishing and indexing, which does not depend on the size."""


def elapsed_seconds(job: Job) -> float:
    end = job.completed_at or datetime.now(UTC)
    return round(max((end - (job.started_at or job.created_at)).total_seconds(), 0.0), 2)


def dump_running(job: Job, seconds_left: float) -> Json:
    return {
        "success": True, "task_id": str(job.uid), "status": format_status(job.status), "progress": job.progress,
        "current_step": job.step or "Waiting", "completed_steps": job.done, "total_steps": job.total,
        "elapsed_time_seconds": elapsed_seconds(job), "estimated_remaining_seconds": seconds_left,
    }  # fmt: skip


def dump_ended(job: Job) -> ToolResult:
    failed = job.error is not None or job.status is JobStatus.CANCELLED
    return refuse_failed(job) if failed else dump_completed(job)


async def find_task(call: ToolCall, task_id: str) -> Job:
    ref = parse_ref(task_id)
    if ref is None:
        raise errors.InvalidParameter("Invalid value for 'task_id': must be a UUID", parameter="task_id")
    try:
        return await call.engine.job(ref)
    except errors.JobNotFound:
        raise errors.JobNotFound(
            f"Task with ID '{task_id}' not found", hint="Use the task_id that knowledge-add returned.", task_id=task_id
        ) from None


def dump_completed(job: Job) -> Json:
    document = str(job.document_uid) if job.document_uid else None
    result: Json = {"document_id": document, "filename": job.filename, "chunks_created": job.chunk_count}
    answer: Json = {
        "success": True, "task_id": str(job.uid), "status": "completed", "progress": 1.0, "result": result,
        "total_time_seconds": elapsed_seconds(job),
    }  # fmt: skip
    return {**answer, **dump_warnings(job.warnings)}


def refuse_failed(job: Job) -> Refusal:
    """Return the refusal for a failed or cancelled task, with its reason."""
    if job.error is None:
        code, message, facts = "cancelled", "The task was cancelled and left nothing behind", {}
    else:
        code = find_nearest(ERRORS_BY_CODE.get(job.error.code, errors.Internal), ERROR_CODES)
        message, facts = job.error.message, {"hint": job.error.hint} if job.error.hint else {}
    return Refusal(
        {
            "success": False, "task_id": str(job.uid), "status": format_status(job.status), "error": code,
            "message": message, "elapsed_time_seconds": elapsed_seconds(job), "filename": job.filename, **facts,
        },
        code=code,
    )  # fmt: skip


async def cancel_task(call: ToolCall, task_id: str) -> ToolResult:
    """Handle `tools/cancel`: cancel a task and roll back its changes."""
    try:
        job = await call.engine.cancel((await find_task(call, task_id)).uid)
    except KnowledgeError as error:
        return refuse(error)
    return {"success": True, "task_id": str(job.uid), "status": format_status(job.status), "message": "Task cancelled"}


@dataclass(frozen=True, slots=True)
class TimingSample:
    """Kind, size in bytes and processing time of one added document."""

    family: str
    size: int
    seconds: float


def family_of(doc_type: str) -> str:
    return FAMILY_BY_TYPE.get(doc_type, "text")


def estimate_seconds(doc_type: str, size: int, samples: Sequence[TimingSample], waiting: int = 0) -> float:
    """Estimate the processing time of a document, with `waiting` jobs queued before it."""
    kind = family_of(doc_type)
    alike = [sample for sample in samples if sample.family == kind]
    spent = PRIOR_SECONDS_PER_MEGABYTE[kind] * PRIOR_BYTES / BYTES_PER_MEGABYTE + sum(
        max(sample.seconds - MIN_SECONDS, 0.0) for sample in alike
    )
    seen = PRIOR_BYTES + sum(sample.size for sample in alike)
    usual = sum(sample.seconds for sample in samples) / len(samples) if samples else DEFAULT_SECONDS
    return round(MIN_SECONDS + size * spent / seen + waiting * usual, 1)


async def load_timing_samples(engine: Engine, count: int = 20) -> list[TimingSample]:
    """Return the processing times of the latest documents."""
    done = await engine.jobs(JobFilter(status=JobStatus.COMPLETED, kind=JobKind.ADD, per_page=count))
    documents = await engine.documents(DocumentFilter(sort="updated_at", per_page=count))
    spent = {
        job.document_id: (job.completed_at - job.started_at).total_seconds()
        for job in done.items
        if job.started_at and job.completed_at
    }
    return [
        TimingSample(family_of(document.doc_type), document.size_bytes, spent[document.id])
        for document in documents.items
        if document.id in spent
    ]


async def estimate_new_document(engine: Engine, doc_type: str, size: int) -> float:
    """Estimate the seconds until a document that was just queued is processed."""
    queued = await engine.jobs(JobFilter(status=JobStatus.QUEUED, per_page=1))
    return estimate_seconds(doc_type, size, await load_timing_samples(engine), max(queued.total - 1, 0))


async def estimate_time_left(engine: Engine, job: Job) -> float:
    """Estimate the remaining seconds of a job from its progress, or from the latest jobs if it has none."""
    spent = (now() - job.started_at).total_seconds() if job.started_at else 0.0
    if job.progress > 0:
        return round(max(spent, 0.1) * (1 - job.progress) / job.progress, 1)
    samples = await load_timing_samples(engine)
    usual = sum(sample.seconds for sample in samples) / len(samples) if samples else DEFAULT_SECONDS
    return round(max(usual - spent, 0.1), 1)
