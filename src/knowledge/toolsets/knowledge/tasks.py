"""Contract 000's tasks: how a job is shown and cancelled, and an estimate of how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from knowledge import errors
from knowledge.engine.api import Engine
from knowledge.errors import ERRORS_BY_CODE, KnowledgeError
from knowledge.model import DocumentFilter, Job, JobFilter, JobKind, JobStatus, Json, now
from knowledge.toolsets.base import Refusal, ToolCall, ToolResult, find_nearest
from knowledge.toolsets.knowledge.errors import ERROR_CODES, dump_warnings, refuse
from knowledge.toolsets.values import as_ref

STATUS_WORDS = {JobStatus.PROCESSING: "running", JobStatus.PARTIAL: "completed"}

BYTES_PER_MEGABYTE = 1 << 20

FAMILY_BY_TYPE = {
    "pdf": "pages", "docx": "pages", "pptx": "pages", "xlsx": "pages", "doc": "pages", "ppt": "pages", "xls": "pages",
    "odt": "pages", "odp": "pages", "ods": "pages", "epub": "pages", "rtf": "pages",
    "jpg": "image", "jpeg": "image", "png": "image", "gif": "image", "bmp": "image", "tif": "image", "tiff": "image",
    "webp": "image",
}  # fmt: skip

PRIOR_SECONDS_PER_MEGABYTE = {"text": 25.0, "pages": 4.0, "image": 6.0}
"""Seconds a megabyte, before anything has been learnt on this machine."""
PRIOR_BYTES = BYTES_PER_MEGABYTE // 4
"""Weight of the prior in bytes of evidence (shrinkage estimate)."""
DEFAULT_SECONDS = 2.0
"""Seconds that a document takes of which nothing is known."""
MIN_SECONDS = 0.2
"""Queueing, publishing and indexing take this long for the smallest document."""


def status_word(job: Job) -> str:
    return STATUS_WORDS.get(job.status, job.status.value)


def elapsed_seconds(job: Job) -> float:
    end = job.completed_at or datetime.now(UTC)
    return round(max((end - (job.started_at or job.created_at)).total_seconds(), 0.0), 2)


def dump_running(job: Job, seconds_left: float) -> Json:
    return {
        "success": True, "task_id": str(job.uid), "status": status_word(job), "progress": job.progress,
        "current_step": job.step or "Waiting", "completed_steps": job.done, "total_steps": job.total,
        "elapsed_time_seconds": elapsed_seconds(job), "estimated_remaining_seconds": seconds_left,
    }  # fmt: skip


def dump_ended(job: Job) -> ToolResult:
    came_to_nothing = job.error is not None or job.status is JobStatus.CANCELLED
    return refuse_failed(job) if came_to_nothing else dump_completed(job)


async def find_task(call: ToolCall, task_id: str) -> Job:
    ref = as_ref(task_id)
    if ref is None:
        raise errors.InvalidParameter("Invalid value for 'task_id': must be a UUID", parameter="task_id")
    try:
        return await call.engine.job(ref)
    except errors.JobNotFound:
        raise errors.JobNotFound(
            f"Task with ID '{task_id}' not found", hint="Use the task_id that knowledge-add answered.", task_id=task_id
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
    """A task that came to nothing, and why."""
    if job.error is None:
        word, message, facts = "cancelled", "The task was cancelled; nothing of it remains", {}
    else:
        word = find_nearest(ERRORS_BY_CODE.get(job.error.code, errors.Internal), ERROR_CODES)
        message, facts = job.error.message, {"hint": job.error.hint} if job.error.hint else {}
    return Refusal(
        {
            "success": False, "task_id": str(job.uid), "status": status_word(job), "error": word, "message": message,
            "elapsed_time_seconds": elapsed_seconds(job), "filename": job.filename, **facts,
        },
        code=word,
    )  # fmt: skip


async def cancel_task(call: ToolCall, task_id: str) -> ToolResult:
    """`tools/cancel`: stop a task and take back what it had done."""
    try:
        job = await call.engine.cancel((await find_task(call, task_id)).uid)
    except KnowledgeError as error:
        return refuse(error)
    return {"success": True, "task_id": str(job.uid), "status": status_word(job), "message": "Task cancelled"}


@dataclass(frozen=True, slots=True)
class TimingSample:
    """One document that was added: its kind, its size, and the seconds it took."""

    family: str
    size: int
    seconds: float


def family_of(doc_type: str) -> str:
    return FAMILY_BY_TYPE.get(doc_type, "text")


def estimate_seconds(doc_type: str, size: int, samples: Sequence[TimingSample], waiting: int = 0) -> float:
    """The time that a document of this size is likely to need, behind so many others."""
    kind = family_of(doc_type)
    alike = [sample for sample in samples if sample.family == kind]
    spent = PRIOR_SECONDS_PER_MEGABYTE[kind] * PRIOR_BYTES / BYTES_PER_MEGABYTE + sum(
        max(sample.seconds - MIN_SECONDS, 0.0) for sample in alike
    )
    seen = PRIOR_BYTES + sum(sample.size for sample in alike)
    usual = sum(sample.seconds for sample in samples) / len(samples) if samples else DEFAULT_SECONDS
    return round(MIN_SECONDS + size * spent / seen + waiting * usual, 1)


async def load_samples(engine: Engine, count: int = 20) -> list[TimingSample]:
    """The latest documents with the time that their jobs took."""
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
    """How many seconds a document that was just accepted will take, those before it included."""
    queued = await engine.jobs(JobFilter(status=JobStatus.QUEUED, per_page=1))
    return estimate_seconds(doc_type, size, await load_samples(engine), max(queued.total - 1, 0))


async def estimate_time_left(engine: Engine, job: Job) -> float:
    """The seconds that a job still needs: as its own pace foretells, or as the latest ones took before it has one."""
    spent = (now() - job.started_at).total_seconds() if job.started_at else 0.0
    if job.progress > 0:
        return round(max(spent, 0.1) * (1 - job.progress) / job.progress, 1)
    samples = await load_samples(engine)
    usual = sum(sample.seconds for sample in samples) / len(samples) if samples else DEFAULT_SECONDS
    return round(max(usual - spent, 0.1), 1)
