"""Types for new, claimed and finished jobs, and their conversion from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from knowledge.model import Job, JobError, JobKind, JobStatus, Json
from knowledge.store.row_mapping import parse_optional_timestamp, parse_timestamp

# Limits of the quarantine: docs/decisions/0011-jobs-that-end-the-server.md
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
    """The document that an ADD job has published by words and that has no vectors yet."""

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
        step="Queued",
        done=0,
        total=0,
        error=None,
        warnings=(),
        document_id=None,
        document_uid=None,
        chunk_count=0,
        created_at=parse_timestamp(created_at),
        started_at=None,
        completed_at=None,
    )


def make_job(row: Any) -> Job:
    error = JobError(**row.error) if row.error else None
    return Job(
        id=row.id,
        uid=row.uid,
        kind=JobKind(row.kind),
        owner=row.owner_id,
        filename=row.filename,
        status=JobStatus(row.status),
        step=row.step,
        done=0,
        total=0,
        error=error,
        warnings=tuple(row.warnings),
        document_id=row.document_id,
        document_uid=row.document_uid,
        chunk_count=row.chunk_count,
        created_at=parse_timestamp(row.created_at),
        started_at=parse_optional_timestamp(row.started_at),
        completed_at=parse_optional_timestamp(row.completed_at),
    )
