"""What an index is to the engine: derived from the store, fed with whole documents, asked for words and for meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Entry:
    """One passage as the index keeps it."""

    chunk_id: int
    document_id: int
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
class Within:
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
class Words:
    """A question as the index reads it. Every word comes in its forms, one where all languages stem it alike."""

    terms: tuple[tuple[str, ...], ...]
    """Repeats are kept: each counts as often as it stands there."""
    phrases: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """Of each phrase one form must stand in the passage, its terms in this order, side by side."""
    exact: bool = False
    """Nothing but phrases was asked for."""
    instead: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """Terms that nothing holds, each with those that are searched for in its place, for less."""


Places: TypeAlias = NDArray[np.int64]
"""Where passages stand in an index while it is held still: one more for the next passage of the same document."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Places, best first, with their scores."""

    places: Places
    scores: NDArray[np.float32]


ReadEntries: TypeAlias = Callable[[Sequence[int]], Iterable[Entry]]
"""The passages of these ids as the store has them now, but for those that are gone."""


class Index(Protocol):
    def checkpoint(self) -> int:
        """The last change that every part of this index has seen and keeps through a crash; -1 asks for a rebuild."""

    def apply(self, seq: int, documents: Sequence[int], entries: Iterable[Entry]) -> None:
        """Make the index say about these documents exactly what `entries` say. Visible to searches on return; to
        repeat it changes nothing. A document without entries is gone."""

    def flush(self) -> None:
        """Make everything applied so far outlive a crash."""

    def unpurged(self) -> int:
        """0 when the files hold nothing of deleted passages; else about how many others have to be written anew."""

    def purge(self, read: ReadEntries) -> bool:
        """Take one short step towards files that hold nothing of deleted passages; whether nothing is left to do."""

    def still(self) -> Index:
        """The index as it stands now, for one search: what changes meanwhile is not seen."""

    def words(self, words: Words, within: Within, limit: int) -> Scored:
        """BM25."""

    def meaning(self, vector: NDArray[np.float32], within: Within, limit: int) -> Scored:
        """Cosine."""

    def ids(self, places: Places) -> NDArray[np.int64]:
        """The passages that stand there."""

    def documents(self, places: Places) -> NDArray[np.int64]:
        """Whose passages stand there."""

    def places(self, ids: NDArray[np.int64]) -> Places:
        """Where passages stand; -1 for one that is not here."""

    def cosines(self, vector: NDArray[np.float32], places: Places) -> NDArray[np.float32]:
        """The cosine of each passage to the question; nan for one without a vector."""

    def bm25(self, words: Words, places: Places, within: Within | None = None) -> NDArray[np.float32]:
        """The word score of each passage, as `words` has it within the same; 0 where no word matches."""

    def holding(self, term: str, within: Within) -> int:
        """How many passages of the collections that are asked hold this term."""

    def ceiling(self, words: Words, within: Within | None = None) -> float:
        """2.2 times the sum of the terms' idf: what BM25 is divided by to lie between 0 and 1."""

    def copies(self, places: Places) -> NDArray[np.bool_]:
        """For every two of these passages, whether they say the same in nearly the same words."""

    def languages(self) -> tuple[str, ...]:
        """By whose stems its passages were cut, the most frequent first: a question must be cut by all of them."""

    def count(self) -> int:
        """How many passages it holds."""

    def document_chunks(self) -> dict[int, int]:
        """How many passages of each document it holds, for `verify`."""

    def damage(self) -> list[str]:
        """Its files whose bytes are no longer the ones that were written, for `verify`."""

    def size_bytes(self) -> int: ...

    def close(self) -> None: ...
