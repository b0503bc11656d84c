"""The index protocol: derived from the store, updated by documents and by vectors, searched by BM25 and by vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One chunk as the index stores it."""

    chunk_id: int
    document_id: int
    position: int
    """Position of the chunk in its document, from 0."""
    collection_id: int
    owner: int
    doc_type: str
    day: int
    """UTC day of the document's created_at, in days since 1970-01-01."""
    tags: tuple[str, ...]
    terms: Sequence[str]
    """Terms of title, headings and text, from `text.analyzer`."""
    vector: NDArray[np.float16] | None
    """None if the model does not support the language or has not embedded the chunk yet."""
    language: str | None = None
    """Language of the stemmer (ISO 639-1); None means English."""


@dataclass(frozen=True, slots=True)
class ChunkVector:
    """The vector of a chunk that is already in the index."""

    chunk_id: int
    vector: NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """A Scope and a Filter with all names resolved to ids."""

    owner: int
    shared_collections: tuple[int, ...] = ()
    """Collections of other owners that the caller may read."""
    collections: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    doc_types: tuple[str, ...] = ()
    documents: tuple[int, ...] = ()
    day_from: int | None = None
    day_to: int | None = None


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The analysed query. Each word is a tuple of forms, one for each language that stems it differently."""

    terms: tuple[tuple[str, ...], ...]
    """Repeated words are kept: a word counts once for each occurrence."""
    phrases: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """The chunk must contain one form of each phrase, with adjacent terms in this order."""
    exact: bool = False
    """True if the query consists of phrases only."""
    instead: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """Words that occur nowhere, each with the corrections searched instead at a lower weight."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Chunks found by BM25 or by vectors, one row each, with both scores; a rank is -1 on the side that did not find
    the chunk."""

    ids: NDArray[np.int64]
    bm25: NDArray[np.float64]
    ceiling: float
    """Upper bound of BM25 for this query."""
    cosine: NDArray[np.float64]
    """nan for a chunk without a vector."""
    words_rank: NDArray[np.int64]
    meaning_rank: NDArray[np.int64]
    documents: NDArray[np.int64]
    places: NDArray[np.int64]
    """Consecutive chunks of a document have consecutive numbers."""
    quoted: NDArray[np.bool_] | None = None
    """True for rows that contain every phrase of the query; None if the query has none."""


ReadEntries: TypeAlias = Callable[[Sequence[int]], Iterable[IndexEntry]]
"""Read the chunks with these ids from the store; deleted ones are left out."""


class IndexSnapshot(Protocol):
    """An immutable snapshot of the index; later changes are not visible in it."""

    def find_candidates(
        self,
        words: QueryTerms,
        vector: NDArray[np.float32] | None,
        within: IndexFilter,
        limit: int,
        *,
        by_words: bool = True,
    ) -> Candidates:
        """Return the `limit` best chunks by BM25 and the `limit` nearest by cosine, each with both scores.

        Without `by_words`, or without a vector, only the other side is searched and scored. If the query has
        phrases, chunks that contain all of them come first and are marked in `quoted`; the others are left out if
        `words.exact` or if `limit` chunks contain the phrases.
        """

    def find_near_duplicates(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a symmetric matrix that marks pairs of near-duplicate chunks."""

    def compute_cosines(self, vector: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the cosine of each chunk to a vector; nan for a chunk that is unknown or has no vector."""

    def count_chunks_by_term(self, terms: Iterable[str], within: IndexFilter) -> dict[str, int]:
        """Return the document frequency of each term within the filtered collections."""

    def find_completions(self, prefix: str, within: IndexFilter, limit: int) -> list[str]:
        """Return the most frequent terms that begin with a prefix and occur in the filtered collections."""

    def compute_ceiling(self, words: QueryTerms, within: IndexFilter | None = None) -> float:
        """Return 2.2 times the sum of the terms' idf, the upper bound of BM25."""

    def languages(self) -> tuple[str, ...]:
        """Return the stemming languages of the chunks, most frequent first; a query is stemmed in all of them."""


class Index(Protocol):
    def checkpoint(self) -> int:
        """Return the last change log entry that is durable in every part of the index; -1 requests a rebuild."""

    def apply(
        self,
        seq: int,
        documents: Sequence[int],
        entries: Iterable[IndexEntry],
        vectors: Iterable[ChunkVector] = (),
    ) -> None:
        """Replace all chunks of these documents by `entries`, then set the vectors of chunks that are in the index.

        Idempotent, and visible to searches on return. A document without entries is removed. A vector replaces an older
        one; the words of its chunk stay as they are. Vectors of unknown chunks are ignored.
        """

    def flush(self) -> None:
        """Make everything applied so far durable."""

    def count_unpurged(self) -> int:
        """Return 0 if the files contain no deleted chunks, else an estimate of the chunks to rewrite."""

    def purge(self, read: ReadEntries) -> bool:
        """Do one short step of removing deleted chunks from the files; True when nothing is left to do."""

    @property
    def snapshot(self) -> IndexSnapshot:
        """The current snapshot; a search uses one snapshot throughout."""

    def count(self) -> int:
        """Return the number of chunks."""

    def count_document_chunks(self) -> dict[int, int]:
        """Return the number of chunks by document id, for `verify`."""

    def find_damaged_files(self) -> list[str]:
        """Return the names of files with a wrong checksum, for `verify`."""

    def size_bytes(self) -> int: ...

    def close(self) -> None: ...
