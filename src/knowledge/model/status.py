"""What the engine tells about itself and about what it has done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes as they came in."""

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
    """A model that is to follow, while its vectors are made."""

    name: str
    left: int | None
    """How many passages still wait for theirs; None until they have been counted."""
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
    """The data folder can be read and written."""
    index_ok: bool = True
    """The index answers."""
    chunk_size: int = 200
    """How many tokens a passage has at most."""

    @property
    def health(self) -> str:
        return "degraded" if self.issues else "healthy"


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference that `verify` found."""

    part: str
    """store, index or files."""
    message: str
    hint: str = ""
    """What to do about it."""
    document_id: int | None = None
    """The document that is damaged, where it is one."""
