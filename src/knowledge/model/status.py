"""Engine status, originals, and the results of removals and `verify`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Original:
    """An uploaded file as it was received."""

    filename: str
    size: int
    """Bytes of the whole file."""
    pieces: AsyncIterator[bytes]
    """All bytes, or those of the range that was asked for."""
    sha256: str = ""
    """Empty for a file that is made while it is sent."""


@dataclass(frozen=True, slots=True)
class RereadStatus:
    """Documents that are read again for the word boxes of OCR."""

    queued: int
    """Jobs that this call has queued."""
    waiting: int
    """Jobs that have not ended."""


@dataclass(frozen=True, slots=True)
class RemovalResult:
    documents: int
    chunks: int
    bytes_freed: int


@dataclass(frozen=True, slots=True)
class NextModel:
    """The next embedding model while its vectors are computed."""

    name: str
    left: int | None
    """Chunks without a vector; None until they are counted."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ModelStatus:
    name: str
    dimension: int
    device: str
    loaded: bool
    error: str | None = None
    next: NextModel | None = None
    arithmetic: str | None = None
    """`int8` or `float32` for a model in this process; None for a service and while it loads."""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """Memory of the server, and apart from it that of the child processes that read documents."""

    server_bytes: int = 0
    """Memory without mapped files, where the system tells it."""
    children: int = 0
    """Child processes, with the process that starts them."""
    children_bytes: int = 0


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """Unfinished jobs of one kind and status, of all accounts and servers."""

    kind: str
    status: str
    """queued or processing."""
    jobs: int
    oldest_seconds: int
    """Time since the oldest of them was added."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What the operator watches: the queue and the sizes of all accounts, and the lag of the index of this server."""

    queue: tuple[QueueLoad, ...] = ()
    index_lag: int = 0
    """Changes that the index of this server has not applied."""
    documents: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One of the servers that use the same database."""

    id: str
    address: str
    version: str
    role: str
    """all, no-workers or workers-only."""
    ready: bool
    lag: int
    """Changes that its index has not applied; 0 for a server without an index."""
    last_seen: datetime
    live: bool
    """Whether it was seen within ten seconds."""


@dataclass(frozen=True, slots=True)
class BackupStatus:
    """The backups by schedule, of all servers of a database."""

    every_seconds: float = 0.0
    """Interval of the schedule; 0 without one, and for an account."""
    succeeded_at: datetime | None = None
    attempted_at: datetime | None = None
    file: str = ""
    """The newest backup."""
    error: str = ""
    """Why the last attempt failed; empty if it did not."""
    overdue: bool = False
    """Whether the newest backup is older than two intervals."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    version: str
    uptime_seconds: float
    data_path: str
    model: ModelStatus
    documents: int
    chunks: int
    collections: int
    queued: int
    processing: int
    failed: int
    database_bytes: int
    files_bytes: int
    index_bytes: int
    issues: tuple[str, ...]
    last_change: datetime | None
    storage_ok: bool = True
    """Whether the data folder is readable and writable."""
    index_ok: bool = True
    """Whether the index is available."""
    chunk_size: int = 200
    """Maximum tokens per chunk."""
    chunks_without_vectors: int = 0
    """Chunks that are found by words only."""
    processes: ProcessStatus = ProcessStatus()
    """All zero for an account."""
    database: str = ""
    """Name and version of the database, such as 'SQLite 3.45.1'."""
    servers: tuple[ServerStatus, ...] = ()
    """The servers that use this database, if several can."""
    load: EngineLoad = EngineLoad()
    """All zero for an account."""
    free_bytes: int = 0
    """Free space on the disk of the data folder; 0 for an account."""

    backup: BackupStatus = BackupStatus()

    @property
    def health(self) -> str:
        return "degraded" if self.issues else "healthy"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem found by `verify`."""

    part: str
    """store, index or files."""
    message: str
    hint: str = ""
    document_id: int | None = None
    """The damaged document, if any."""
