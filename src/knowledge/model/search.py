"""Search queries and answers, and filters of lists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from knowledge.model.documents import Chunk, Document
from knowledge.model.jobs import JobKind, JobStatus
from knowledge.model.values import CollectionRef, Json, Ref

KEYWORD_RELEVANCE_CURVE = (-2.08, 7.88)
"""Offset and slope of the logistic curve from a BM25 score, divided by the best possible one, to a relevance."""


class SearchMode(StrEnum):
    """Hybrid (reciprocal rank fusion), keywords, vectors, or hybrid with reranking."""

    HYBRID = "hybrid"
    TEXT = "text"
    VECTOR = "vector"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """Conditions on documents: all of the tags, any of the values in other fields; dates are UTC and inclusive."""

    collections: tuple[CollectionRef, ...] = ()
    tags: tuple[str, ...] = ()
    doc_types: tuple[str, ...] = ()
    documents: tuple[Ref, ...] = ()
    date_from: datetime | None = None
    date_to: datetime | None = None
    trusted_only: bool = False
    """Only collections that are marked as trusted, by the caller or by the owner of an approved corpus."""


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
    """Whether to fall back to keyword search if the embedding service fails; otherwise its error is raised."""


@dataclass(frozen=True, slots=True)
class Hit:
    chunk: Chunk
    """The best chunk, if several were joined."""
    document: Document
    score: float
    """Calibrated relevance from 0 to 1."""
    matched_by: str
    """words, meaning or both."""
    text: str
    """Text of the chunk, or of all joined chunks."""
    indexes: tuple[int, int]
    """First and last chunk index of `text`."""
    explanation: Json | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    hits: tuple[Hit, ...]
    total: int
    """Number of matching chunks within the search depth."""
    mode: SearchMode
    """The mode that was used: TEXT if no model is loaded yet."""
    notes: tuple[str, ...] = ()
    """Messages for the caller, such as a fallback or an exceeded time limit."""
    explanation: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    collection: CollectionRef | None = None
    tag: str | None = None
    doc_type: str | None = None
    source_path: str | None = None
    finished: bool = False
    """Whether to leave out documents that are processing."""
    sort: str = "created_at"
    """created_at, updated_at, title, filename or size_bytes."""
    descending: bool = True
    page: int = 1
    per_page: int = 50
    offset: int | None = None
    """Replaces `page` for contracts that use offsets."""


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
