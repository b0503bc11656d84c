"""Types for new, claimed and finished jobs, and their conversion from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from knowledge.model import Job, JobError, JobKind, JobStatus, Json
from knowledge.model.jobs import JobPhase
from knowledge.store.row_mapping import parse_optional_timestamp, parse_timestamp

# Limits of the quarantine: docs/decisions/0011-jobs-that-end-the-server.md
REPEATABLE_KINDS = (JobKind.EMBED, JobKind.CRAWL, JobKind.REREAD)
"""Job kinds that can be retried without an original, because the payload holds only an id or address."""
MAX_DEATHS = 2
"""Crashes of its child processes after which a job runs alone."""
MAX_UNCLEAN_STARTS = 2
"""Unclean shutdowns during a job after which it runs alone."""
MAX_UNCLEAN_STARTS_ALONE = 3
"""Further unclean shutdowns, while it ran alone, after which a job fails."""


@dataclass(frozen=True, slots=True)
class NewJob:
    uid: UUID
    kind: JobKind
    owner: int
    collection_id: int | None
    filename: str
    payload: Json
    sha256: str | None
    priority: int
    document_id: int | None = None
    """The document that a REREAD job reads again."""


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A job claimed by one worker."""

    id: int
    uid: UUID
    token: str
    kind: JobKind
    owner: int
    collection_id: int | None
    filename: str
    payload: Json
    sha256: str | None
    priority: int
    deaths: int
    unclean_starts: int
    document_id: int | None
    """The document that an ADD job has published by words and that has no vectors yet, or that a REREAD job reads."""
    cancel_requested: bool = False
    """Whether a cancel reached the server that ran the job before and could not carry it out."""

    @property
    def runs_alone(self) -> bool:
        """Whether the job is quarantined: no other job runs, and every step runs in a child process."""
        return self.deaths >= MAX_DEATHS or self.unclean_starts >= MAX_UNCLEAN_STARTS


@dataclass(frozen=True, slots=True)
class ActiveJob:
    id: int
    owner: int


@dataclass(frozen=True, slots=True)
class FinishedJob:
    id: int
    sha256: str | None
    """Original that the job released, if no document references it."""


def make_claim(row: Any) -> JobClaim:
    return JobClaim(
        id=row.id,
        uid=row.uid,
        token=row.token,
        kind=JobKind(row.kind),
        owner=row.owner_id,
        collection_id=row.collection_id,
        filename=row.filename,
        payload=row.payload,
        sha256=row.sha256,
        priority=row.priority,
        deaths=row.deaths,
        unclean_starts=row.unclean_starts,
        document_id=row.document_id,
        cancel_requested=row.cancel_requested,
    )


def make_queued_job(identity: int, new: NewJob, created_at: int) -> Job:
    """Return the Job for a row that was just inserted."""
    return Job(
        id=identity,
        uid=new.uid,
        kind=new.kind,
        owner=new.owner,
        filename=new.filename,
        status=JobStatus.QUEUED,
        progress=0.0,
        step="Queued",
        done=0,
        total=0,
        error=None,
        warnings=(),
        document_id=new.document_id,
        document_uid=None,
        chunk_count=0,
        created_at=parse_timestamp(created_at),
        started_at=None,
        completed_at=None,
    )


def _compute_progress(row: Any) -> float:
    """Return how far a job is at least, by what is stored of it."""
    if row.status in (JobStatus.COMPLETED, JobStatus.PARTIAL):
        return 1.0
    if row.status not in (JobStatus.QUEUED, JobStatus.PROCESSING):
        return float(row.progress)
    if row.change_seq is not None:
        return max(float(row.progress), JobPhase.INDEX.compute_progress(0, 0))
    is_found_by_words = row.kind == JobKind.ADD and row.document_id is not None
    return max(float(row.progress), JobPhase.EMBED.compute_progress(0, 0) if is_found_by_words else 0.0)


def make_job(row: Any) -> Job:
    error = JobError(**row.error) if row.error else None
    is_running = row.status == JobStatus.PROCESSING
    return Job(
        id=row.id,
        uid=row.uid,
        kind=JobKind(row.kind),
        owner=row.owner_id,
        filename=row.filename,
        status=JobStatus(row.status),
        progress=_compute_progress(row),
        step=row.step,
        done=row.done if is_running else 0,
        total=row.total if is_running else 0,
        unit=row.unit if is_running else None,
        error=error,
        warnings=tuple(row.warnings),
        document_id=row.document_id,
        document_uid=row.document_uid,
        chunk_count=row.chunk_count,
        created_at=parse_timestamp(row.created_at),
        started_at=parse_optional_timestamp(row.started_at),
        completed_at=parse_optional_timestamp(row.completed_at),
        retryable=row.status in (JobStatus.FAILED, JobStatus.CANCELLED) and keeps_original(row),
    )


def keeps_original(row: Any) -> bool:
    """Return whether a job can run once more: its original was kept, or it needs none."""
    return row.sha256 is not None or row.kind in REPEATABLE_KINDS
