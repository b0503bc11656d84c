"""Jobs, and a page of them."""

from __future__ import annotations

from uuid import UUID

from knowledge.model import Job, JobError, JobKind, JobStatus, Page
from knowledge.wire.shapes import AcceptedShape, JobErrorShape, JobShape, JobsShape
from knowledge.wire.values import dump_moment, dump_moment_or_none, load_moment, load_moment_or_none


def dump_job(job: Job) -> JobShape:
    return {
        "id": job.id,
        "uid": str(job.uid),
        "kind": job.kind,
        "owner": job.owner,
        "filename": job.filename,
        "status": job.status,
        "progress": job.progress,
        "step": job.step,
        "done": job.done,
        "total": job.total,
        "error": None if job.error is None else _dump_job_error(job.error),
        "warnings": list(job.warnings),
        "document_id": job.document_id,
        "document_uid": None if job.document_uid is None else str(job.document_uid),
        "chunk_count": job.chunk_count,
        "created_at": dump_moment(job.created_at),
        "started_at": dump_moment_or_none(job.started_at),
        "completed_at": dump_moment_or_none(job.completed_at),
    }


def load_job(data: JobShape) -> Job:
    return Job(
        id=data["id"],
        uid=UUID(data["uid"]),
        kind=JobKind(data["kind"]),
        owner=data["owner"],
        filename=data["filename"],
        status=JobStatus(data["status"]),
        step=data["step"],
        done=data["done"],
        total=data["total"],
        error=None if data["error"] is None else _load_job_error(data["error"]),
        warnings=tuple(data["warnings"]),
        document_id=data["document_id"],
        document_uid=None if data["document_uid"] is None else UUID(data["document_uid"]),
        chunk_count=data["chunk_count"],
        created_at=load_moment(data["created_at"]),
        started_at=load_moment_or_none(data["started_at"]),
        completed_at=load_moment_or_none(data["completed_at"]),
    )


def dump_accepted(job: Job) -> AcceptedShape:
    """What answers an add: the job, and its id under the name that contract 004 has for it."""
    return {"job_id": job.id, **dump_job(job)}


def dump_jobs(page: Page[Job]) -> JobsShape:
    return {
        "jobs": [dump_job(job) for job in page.items],
        "total": page.total,
        "page": page.page,
        "per_page": page.per_page,
    }


def load_jobs(data: JobsShape) -> Page[Job]:
    return Page(tuple(load_job(job) for job in data["jobs"]), data["total"], data["page"], data["per_page"])


def _dump_job_error(error: JobError) -> JobErrorShape:
    return {"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}


def _load_job_error(data: JobErrorShape) -> JobError:
    return JobError(data["code"], data["message"], data["hint"], data["details"])
