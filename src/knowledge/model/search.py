"""Questions and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from knowledge.model.documents import Chunk, Document
from knowledge.model.jobs import JobKind, JobStatus
from knowledge.model.values import CollectionRef, Json, Ref


class Mode(StrEnum):
    """What a search goes by: words and meaning fused, one of them, or fused and reranked."""

    HYBRID = "hybrid"
    TEXT = "text"
    VECTOR = "vector"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Every field narrows; tags are all-of, the others any-of. Dates are UTC and inclusive."""

    collections: tuple[CollectionRef, ...] = ()
    tags: tuple[str, ...] = ()
    doc_types: tuple[str, ...] = ()
    documents: tuple[Ref, ...] = ()
    date_from: datetime | None = None
    date_to: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str
    limit: int = 10
    offset: int = 0
    filter: Filter = Filter()
    mode: Mode = Mode.HYBRID
    threshold: float = 0.0
    budget_ms: int | None = None
    explain: bool = False
    fallback: bool = True
    """Hits by words alone are welcome where an embedding service fails; otherwise its error is the answer."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A passage made of several neighbours that all matched."""

    text: str
    first: int
    last: int
    """The index of its first chunk, and of its last."""


@dataclass(frozen=True, slots=True)
class Hit:
    chunk: Chunk
    """The best one, where several were joined."""
    document: Document
    score: float
    """Calibrated relevance from 0 to 1."""
    matched_by: str
    """words, meaning or both."""
    explanation: Json | None = None
    joined: Joined | None = None

    @property
    def text(self) -> str:
        """What there is to read: the chunk, or all that were joined."""
        return self.joined.text if self.joined else self.chunk.text

    @property
    def indexes(self) -> tuple[int, int]:
        """The first and the last chunk of what there is to read."""
        return (self.joined.first, self.joined.last) if self.joined else (self.chunk.index, self.chunk.index)


@dataclass(frozen=True, slots=True)
class Answer:
    hits: tuple[Hit, ...]
    total: int
    """How many passages matched, as deep as the search went."""
    mode: Mode
    """The mode really used: words alone where no model is loaded yet."""
    notes: tuple[str, ...] = ()
    """What the caller should know: a mode that fell back, a budget that ran out."""
    explanation: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    collection: CollectionRef | None = None
    tag: str | None = None
    doc_type: str | None = None
    source_path: str | None = None
    sort: str = "created_at"
    """created_at, updated_at, title, filename or size_bytes."""
    descending: bool = True
    page: int = 1
    per_page: int = 50
    offset: int | None = None
    """Instead of a page, where a contract counts that way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    status: JobStatus | None = None
    kind: JobKind | None = None
    page: int = 1
    per_page: int = 50


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    total: int
    page: int = 1
    per_page: int = 50
