"""JSON of the engine status, health checks and `verify` findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field
from typing_extensions import TypedDict

from knowledge.model import BackupStatus, EngineLoad, EngineStatus, Finding, ModelStatus, ProcessStatus, ServerStatus
from knowledge.wire.requests import Body


class ReindexBody(Body):
    model: str | None = Field(
        None, min_length=1, description="New embedding model: default, dir:PATH, hf:NAME or openai:URL#MODEL."
    )


class DoneShape(TypedDict):
    status: str


class HealthShape(TypedDict, total=False):
    status: str
    version: str


@dataclass(frozen=True)
class QueueShape:
    """Number of jobs by state."""

    queued: int
    processing: int
    failed: int


@dataclass(frozen=True)
class StorageShape:
    """Disk usage."""

    database_bytes: int
    files_bytes: int
    index_bytes: int
    database: str = ""
    """Name and version of the database; empty for accounts."""
    free_bytes: int = 0
    """Free space on the disk of the data folder; 0 for accounts."""


@dataclass(frozen=True)
class HealthReportShape:
    """Health of the engine with its open issues."""

    status: str
    issues: tuple[str, ...]
    storage_ok: bool
    index_ok: bool


@dataclass(frozen=True)
class StatusShape:
    """Contents, model, queue, storage and health of the engine."""

    version: str
    uptime_seconds: float
    data_path: str
    model: ModelStatus
    documents: int
    chunks: int
    collections: int
    queue: QueueShape
    storage: StorageShape
    health: HealthReportShape
    chunk_size: int
    last_change: datetime | None
    chunks_without_vectors: int = 0
    processes: ProcessStatus = field(default_factory=ProcessStatus)
    servers: tuple[ServerStatus, ...] = ()
    load: EngineLoad = field(default_factory=EngineLoad)
    backup: BackupStatus = field(default_factory=BackupStatus)

    @classmethod
    def from_status(cls, status: EngineStatus) -> StatusShape:
        return cls(
            version=status.version,
            uptime_seconds=status.uptime_seconds,
            data_path=status.data_path,
            model=status.model,
            documents=status.documents,
            chunks=status.chunks,
            collections=status.collections,
            queue=QueueShape(status.queued, status.processing, status.failed),
            storage=StorageShape(
                status.database_bytes, status.files_bytes, status.index_bytes, status.database, status.free_bytes
            ),
            health=HealthReportShape(status.health, status.issues, status.storage_ok, status.index_ok),
            chunk_size=status.chunk_size,
            last_change=status.last_change,
            chunks_without_vectors=status.chunks_without_vectors,
            processes=status.processes,
            servers=status.servers,
            load=status.load,
            backup=status.backup,
        )

    def to_status(self) -> EngineStatus:
        return EngineStatus(
            version=self.version,
            uptime_seconds=self.uptime_seconds,
            data_path=self.data_path,
            model=self.model,
            documents=self.documents,
            chunks=self.chunks,
            collections=self.collections,
            queued=self.queue.queued,
            processing=self.queue.processing,
            failed=self.queue.failed,
            database_bytes=self.storage.database_bytes,
            files_bytes=self.storage.files_bytes,
            index_bytes=self.storage.index_bytes,
            issues=self.health.issues,
            last_change=self.last_change,
            storage_ok=self.health.storage_ok,
            index_ok=self.health.index_ok,
            chunk_size=self.chunk_size,
            chunks_without_vectors=self.chunks_without_vectors,
            processes=self.processes,
            database=self.storage.database,
            servers=self.servers,
            load=self.load,
            backup=self.backup,
            free_bytes=self.storage.free_bytes,
        )


@dataclass(frozen=True)
class FindingsShape:
    """The result of `verify`."""

    clean: bool
    findings: tuple[Finding, ...]

    @classmethod
    def from_findings(cls, findings: Sequence[Finding]) -> FindingsShape:
        return cls(not findings, tuple(findings))
