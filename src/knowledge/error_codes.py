"""Errors by their codes, and the errors of jobs that have failed."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.errors import Cancelled, Internal, KnowledgeError, NotNow
from knowledge.model import Job, JobError, JobStatus


def walk_error_classes(root: type[KnowledgeError] = KnowledgeError) -> Iterator[type[KnowledgeError]]:
    """Yield the root and all its subclasses in source order."""
    yield root
    for child in root.__subclasses__():
        if child.__bases__[0] is root:  # OcrLanguageMissing has two bases and is listed below the first
            yield from walk_error_classes(child)


ERRORS_BY_CODE: dict[str, type[KnowledgeError]] = {error.code: error for error in walk_error_classes()}


def load_job_error(error: JobError, about: str = "") -> KnowledgeError:
    """Rebuild the exception that ended a job; `about` prefixes its message."""
    loaded = ERRORS_BY_CODE.get(error.code, Internal)(
        f"{about}: {error.message}" if about else error.message, hint=error.hint
    )
    loaded.details = {**error.details}
    return loaded


def raise_job_error(job: Job) -> None:
    """Raise the error of a failed or cancelled job."""
    if job.error is not None:
        raise load_job_error(job.error)
    if job.status is JobStatus.CANCELLED:
        raise Cancelled("The job was cancelled", job_id=job.id)


def make_already_ended(job: Job) -> NotNow:
    return NotNow(f"Job {job.id} has already ended with status {job.status.value}", status=job.status.value)
