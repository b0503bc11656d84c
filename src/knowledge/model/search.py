"""Search queries and answers, and filters of lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar
from uuid import UUID

from knowledge.model.documents import Chunk, Document, DocumentKind, DocumentStatus
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


class FacetName(StrEnum):
    """A property of documents by which an answer is counted."""

    DOC_TYPE = "doc_type"
    COLLECTION = "collection"
    TAG = "tag"
    LANGUAGE = "language"


MIN_RELEVANCE = 0.3
"""Relevance from which on a passage counts as an answer to the question."""


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
    highlight: bool = False
    """Whether to return which words of each passage matched."""
    facets: tuple[FacetName, ...] = ()
    """Count the passages by these properties of their documents."""
    typing: bool = False
    """The question is being typed: its last word may be incomplete, and it is never reranked."""


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
    highlights: tuple[tuple[int, int], ...] | None = None
    """Spans of `text` that matched, in UTF-16 code units, sorted and not overlapping; None if not asked for."""
    lines: tuple[int, int] | None = None
    """First and last line of `text` in a source file, counted from 1; None for other documents."""

    @property
    def location(self) -> str | None:
        """Path and lines as compilers and editors write them; None for what is not source code."""
        where = self.document.source_path or self.document.url or self.document.filename
        return None if self.lines is None or where is None else f"{where}:{self.lines[0]}-{self.lines[1]}"


@dataclass(frozen=True, slots=True)
class DocumentLabels:
    """The properties of a document that facets count."""

    doc_type: str
    language: str | None
    tags: tuple[str, ...]
    collection_id: int
    collection_uid: UUID
    collection: str
    collection_title: str
    owner: int


@dataclass(frozen=True, slots=True)
class FacetValue:
    """How many passages have a value; `title` is that of a collection."""

    value: str
    count: int
    title: str | None = None


@dataclass(frozen=True, slots=True)
class SearchDetails:
    """Counts and words of an answer, for a person who reads it."""

    relevant: int
    """Passages with a relevance of at least MIN_RELEVANCE, among those in `total`."""
    facets: Mapping[FacetName, tuple[FacetValue, ...]]
    """Counts over the passages in `total`, most frequent first."""
    misspelt: Mapping[str, tuple[str, ...]]
    """Words that no passage contains, with the words that were searched instead."""
    unknown_words: tuple[str, ...]
    """Words that no passage contains and that nothing was searched for instead."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    hits: tuple[Hit, ...]
    total: int
    """Number of passages among the candidates, at or above the threshold; the candidates are a fixed number of chunks
    that are nearest by words or by meaning, so this is not how many passages answer the question."""
    mode: SearchMode
    """The mode that was used: TEXT if no model is loaded yet."""
    notes: tuple[str, ...] = ()
    """Messages for the caller, such as a fallback or an exceeded time limit."""
    explanation: Json | None = None
    details: SearchDetails | None = None
    """Only if highlights, facets or a search while typing were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    collection: CollectionRef | None = None
    tag: str | None = None
    doc_type: str | None = None
    source_path: str | None = None
    finished: bool = False
    """Whether to leave out documents that are processing."""
    text: str | None = None
    """A part of the title or the file name, in upper or lower case."""
    status: DocumentStatus | None = None
    kind: DocumentKind | None = None
    language: str | None = None
    added_from: datetime | None = None
    added_to: datetime | None = None
    facets: tuple[FacetName, ...] = ()
    """Count all documents of the list by these properties."""
    sort: str = "created_at"
    """created_at, updated_at, title, filename, size_bytes, doc_type or chunk_count."""
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


@dataclass(frozen=True, slots=True)
class RefusedRetry:
    """A job that could not be retried, and why."""

    id: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RetryResult:
    retried: int
    refused: tuple[RefusedRetry, ...] = ()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    items: tuple[T, ...]
    total: int
    page: int = 1
    per_page: int = 50
    facets: Mapping[FacetName, tuple[FacetValue, ...]] | None = None
    """Counts over all pages, if they were asked for."""
