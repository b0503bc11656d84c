"""Jobs: work that continues after the request was answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
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
    REREAD = "reread"
    """Read the original of a document again for the word boxes that OCR gives; its text stays as it is."""
    VERIFY = "verify"
    """Compare database, index and originals; the findings are the warnings."""
    REINDEX = "reindex"
    """Rebuild the index of one server."""
    BACKUP = "backup"
    """Write an archive of all data into the data folder."""


MAINTENANCE_KINDS = (JobKind.VERIFY, JobKind.REINDEX, JobKind.BACKUP)
"""Jobs that run in the server that was asked, and that no worker claims."""


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
    progress: float
    """From 0 to 1 over all steps; it never falls while the job runs."""
    step: str
    done: int
    total: int
    """Of the current step; 0 if unknown."""
    error: JobError | None
    warnings: tuple[str, ...]
    document_id: int | None
    document_uid: UUID | None
    chunk_count: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    unit: str | None = None
    """What `done` and `total` count: pages, characters or chunks."""
    retryable: bool = False
    """Whether a retry is possible: the job failed or was cancelled, and what it needs was kept."""


class JobPhase(Enum):
    """A part of a job, with its share of the whole from 0 to 1."""

    READ = (0.02, 0.4)
    """A new document is read and split; then it is found by words."""
    EMBED = (0.4, 0.95)
    """A new document is embedded."""
    WHOLE = (0.02, 0.95)
    """A new version is embedded while it is read, because it is published once."""
    CRAWL = (0.0, 0.98)
    INDEX = (0.98, 0.98)

    def compute_progress(self, done: int, total: int) -> float:
        start, end = self.value
        return round(start + (end - start) * min(done / total, 1.0), 4) if total > 0 else start
