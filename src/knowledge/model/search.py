"""Questions and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from knowledge.model.documents import Chunk, Document
from knowledge.model.jobs import JobKind, JobStatus
from knowledge.model.values import CollectionRef, Json, Ref

KEYWORD_RELEVANCE_CURVE = (-2.08, 7.88)
"""Offset and slope of the logistic curve from a BM25 score, as a share of the best possible, to a relevance."""


class SearchMode(StrEnum):
    """What a search goes by: words and meaning fused, one of them, or fused and reranked."""

    HYBRID = "hybrid"
    TEXT = "text"
    VECTOR = "vector"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
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
    filter: SearchFilter = SearchFilter()
    mode: SearchMode = SearchMode.HYBRID
    threshold: float = 0.0
    budget_ms: int | None = None
    explain: bool = False
    fallback: bool = True
    """Hits by words alone are welcome where an embedding service fails; otherwise its error is the answer."""


@dataclass(frozen=True, slots=True)
class Hit:
    chunk: Chunk
    """The best one, where several were joined."""
    document: Document
    score: float
    """Calibrated relevance from 0 to 1."""
    matched_by: str
    """words, meaning or both."""
    text: str
    """What there is to read: the chunk, or all that were joined."""
    indexes: tuple[int, int]
    """The first and the last chunk of what there is to read."""
    explanation: Json | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    hits: tuple[Hit, ...]
    total: int
    """How many passages matched, as deep as the search went."""
    mode: SearchMode
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
class ResultPage(Generic[T]):
    items: tuple[T, ...]
    total: int
    page: int = 1
    per_page: int = 50
