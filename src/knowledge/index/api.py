"""The index as the engine sees it: derived from the store, fed with whole documents, searched by words and vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One passage as the index keeps it."""

    chunk_id: int
    document_id: int
    position: int
    """Where the passage stands in its document, counted from 0."""
    collection_id: int
    owner: int
    doc_type: str
    day: int
    """The UTC day of the document's created_at, counted from 1970-01-01."""
    tags: tuple[str, ...]
    terms: Sequence[str]
    """Title, headings and text, as `analyse.terms` cuts them."""
    vector: NDArray[np.float16] | None
    """None where the model does not read the language, or has not read the passage yet."""
    language: str | None = None
    """By whose stems the terms were made (ISO 639-1); None is English."""


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """A Scope and a Filter as the index sees them: numbers and words, everything resolved."""

    owner: int
    shared_collections: tuple[int, ...] = ()
    """Readable beside what the owner has."""
    collections: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    doc_types: tuple[str, ...] = ()
    documents: tuple[int, ...] = ()
    day_from: int | None = None
    day_to: int | None = None


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A question as the index reads it. Every word comes in its forms, one where all languages stem it alike."""

    terms: tuple[tuple[str, ...], ...]
    """Repeats are kept: each counts as often as it stands there."""
    phrases: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """Of each phrase one form must stand in the passage, its terms in this order, side by side."""
    exact: bool = False
    """Nothing but phrases was asked for."""
    instead: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """Terms that nothing holds, each with those that are searched for in its place, for less."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The passages that words and vectors found, one row each, with both scores. A rank is -1 on the side that did not
    find the passage."""

    ids: NDArray[np.int64]
    bm25: NDArray[np.float64]
    ceiling: float
    """The upper bound of BM25 for this question."""
    cosine: NDArray[np.float64]
    """nan for a passage without a vector."""
    words_rank: NDArray[np.int64]
    meaning_rank: NDArray[np.int64]
    documents: NDArray[np.int64]
    places: NDArray[np.int64]
    """One more for the next passage of the same document."""
    quoted: NDArray[np.bool_] | None = None
    """Which rows hold every phrase of the question; None where that makes no difference."""


ReadEntries: TypeAlias = Callable[[Sequence[int]], Iterable[IndexEntry]]
"""The passages of these ids as the store has them now, but for those that are gone."""


class IndexSnapshot(Protocol):
    """The index at one moment; later changes are not seen."""

    def candidates(
        self,
        words: QueryTerms,
        vector: NDArray[np.float32] | None,
        within: IndexFilter,
        limit: int,
        *,
        by_words: bool = True,
    ) -> Candidates:
        """The `limit` best passages by BM25 and the `limit` nearest by cosine, each with both scores.

        Without `by_words`, or without a vector, the other side alone is searched and scored. Where the words have
        phrases, passages that hold all of them come first and `quoted` marks them; the rest is left out where
        `words.exact` or where `limit` passages hold them.
        """

    def copies(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For every two of these passages, whether they are near-duplicates."""

    def cosines(self, vector: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The cosine of each passage to a vector; nan for one that is not here or has no vector."""

    def count_passages(self, terms: Iterable[str], within: IndexFilter) -> dict[str, int]:
        """How many passages of the collections in question hold each term."""

    def ceiling(self, words: QueryTerms, within: IndexFilter | None = None) -> float:
        """2.2 times the sum of the terms' idf: BM25 divided by it lies between 0 and 1."""

    def languages(self) -> tuple[str, ...]:
        """The languages that its passages were stemmed in, the most frequent first: a question is stemmed in all."""


class Index(Protocol):
    def checkpoint(self) -> int:
        """The last change that every part of this index has seen and keeps through a crash; -1 asks for a rebuild."""

    def apply(self, seq: int, documents: Sequence[int], entries: Iterable[IndexEntry]) -> None:
        """Make the index say about these documents exactly what `entries` say. Visible to searches on return; to
        repeat it changes nothing. A document without entries is gone."""

    def flush(self) -> None:
        """Make everything applied so far outlive a crash."""

    def count_unpurged(self) -> int:
        """0 when the files hold nothing of deleted passages; else about how many others have to be written anew."""

    def purge(self, read: ReadEntries) -> bool:
        """Take one short step towards files that hold nothing of deleted passages; whether nothing is left to do."""

    @property
    def snapshot(self) -> IndexSnapshot:
        """The index as it stands now, for one search."""

    def count(self) -> int:
        """How many passages it holds."""

    def count_document_chunks(self) -> dict[int, int]:
        """How many passages of each document it holds, for `verify`."""

    def find_damaged_files(self) -> list[str]:
        """Its files whose bytes are no longer the ones that were written, for `verify`."""

    def size_bytes(self) -> int: ...

    def close(self) -> None: ...
