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
    pieces: AsyncIterator[bytes]


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
