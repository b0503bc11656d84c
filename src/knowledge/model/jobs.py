"""Jobs: work that continues after the request was answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from knowledge.model.values import Json


class JobStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        return self not in (JobStatus.QUEUED, JobStatus.PROCESSING)


class JobKind(StrEnum):
    ADD = "add"
    """Add a document, or replace the one with the same source path."""
    UPDATE = "update"
    """Replace the text of a note."""
    EMBED = "embed"
    """Embed a document again after its title changed."""
    UNPACK = "unpack"
    """Create one job for each document in an archive."""
    CRAWL = "crawl"


@dataclass(frozen=True, slots=True)
class JobError:
    code: str
    message: str
    hint: str = ""
    details: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    id: int
    uid: UUID
    kind: JobKind
    owner: int
    filename: str
    status: JobStatus
    progress: float = field(init=False, default=0.0)
    """From 0 to 1, computed from status, done and total."""
    step: str
    done: int
    total: int
    error: JobError | None
    warnings: tuple[str, ...]
    document_id: int | None
    document_uid: UUID | None
    chunk_count: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "progress", _compute_progress(self.status, self.done, self.total))


def _compute_progress(status: JobStatus, done: int, total: int) -> float:
    if status in (JobStatus.COMPLETED, JobStatus.PARTIAL):
        return 1.0
    return round(min(done / total, 0.99), 4) if total else 0.0
