"""BM25 of chosen chunks, computed from their packed terms (docs/decisions/0020-bm25-of-chosen-chunks.md).

A search in one collection uses the statistics of that collection only, so other collections do not change its scores.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import QueryTerms
from knowledge.index.columns_view import Slots, SlotView

K1, B = 1.2, 0.75
COUNT_BITS = 6
"""A packed term has 26 bits of hash and 6 bits of term frequency."""
MAX_TERM_COUNT = (1 << COUNT_BITS) - 1
MAX_CACHED_QUERIES = 64
PREFILTER_BITS = 12
# A table of 4096 flags fits into the L1 cache; with six query terms about 1 in 700 other terms passes.
NEAR_TERM_WEIGHT = 0.6
# Weight of a spelling correction, relative to a word that was typed.
DocumentFrequency = Callable[[str], int]
"""Maps a term to its document frequency."""


def hash_term(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) >> COUNT_BITS


def pack(terms: Sequence[str]) -> NDArray[np.uint32]:
    """Return the distinct terms of a chunk as packed hash and frequency."""
    packed = [
        hash_term(term) << COUNT_BITS | (count if count < MAX_TERM_COUNT else MAX_TERM_COUNT)
        for term, count in Counter(terms).items()
    ]
    return np.asarray(packed, np.uint32)


@lru_cache(1 << 12)
def idf(chunk_count: int, document_frequency: int) -> float:
    """Return the inverse document frequency; the frequency may exceed the count, as tantivy counts deleted chunks."""
    return math.log(1 + (max(chunk_count, document_frequency) - document_frequency + 0.5) / (document_frequency + 0.5))


def _make_length_classes() -> NDArray[np.float32]:
    """Return the 256 field lengths that tantivy and Lucene encode in one byte: exact up to 40, then coarser."""
    free = 24
    lengths = list(range(free))
    for code in range(256 - free):
        shift = (code >> 3) - 1
        lengths.append(free + (code & 7 if shift < 0 else ((code & 7) | 8) << shift))
    return np.asarray(lengths, np.float32)


def _make_rounded_lengths() -> NDArray[np.float32]:
    classes = _make_length_classes()
    return classes[np.searchsorted(classes, np.arange(1 << 16, dtype=np.float32), side="right") - 1]


ROUNDED_LENGTHS = _make_rounded_lengths()


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word of the query with those of its forms that occur in the index."""

    forms: tuple[str, ...]
    weight: float
    """Occurrences in the query, multiplied by NEAR_TERM_WEIGHT for a spelling correction."""


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """The distinct words of a query with their weights, computed once for each search."""

    words: tuple[QueryWord, ...]
    ceiling: float
    """Upper bound of the score; the forms of a word count as one word."""
    forms: WordForms
    average_length: float
    """Average chunk length in the collections searched."""


def weigh_query(
    words: QueryTerms, chunk_count: int, average_length: float, document_frequency: DocumentFrequency
) -> WeightedQuery:
    asked: list[QueryWord] = []
    rows: list[tuple[int, int, float]] = []
    total, instead = 0.0, dict(words.instead)
    for at, (forms, repeats) in enumerate(Counter(words.terms).items()):
        near = instead.get(forms)
        held = {form: count for form in near or forms if (count := document_frequency(form))}
        counts = repeats * NEAR_TERM_WEIGHT if near else float(repeats)
        asked.append(QueryWord(tuple(held), counts))
        rows += [(hash_term(form), at, (K1 + 1) * counts * idf(chunk_count, count)) for form, count in held.items()]
        total += repeats * idf(chunk_count, 0 if near else sum(held.values()))
    return WeightedQuery(tuple(asked), (K1 + 1) * total, WordForms.from_rows(rows), average_length)


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Number of chunks, average length and document frequencies of the collections searched."""

    chunk_count: int
    average_length: float
    document_frequency: DocumentFrequency
    whole: bool = True
    """True for the statistics of an index without deleted chunks, which tantivy uses too."""
    _weighted_queries: dict[QueryTerms, WeightedQuery] = field(default_factory=dict)

    def idf(self, form: str) -> float:
        return idf(self.chunk_count, self.document_frequency(form))

    def get_weighted_query(self, words: QueryTerms) -> WeightedQuery:
        """Return the weighted query from a small cache, since one search needs it several times."""
        found = self._weighted_queries.get(words)
        if found is None:
            if len(self._weighted_queries) >= MAX_CACHED_QUERIES:
                self._weighted_queries.clear()
            found = weigh_query(words, self.chunk_count, self.average_length, self.document_frequency)
            self._weighted_queries[words] = found
        return found


def score_slots(view: SlotView, question: WeightedQuery, slots: Slots) -> NDArray[np.float32]:
    """Return the BM25 score of each slot; a word counts by its best form."""
    forms = question.forms
    terms, sizes = view.gather_terms(slots)
    likely = forms.find_likely(terms)
    terms = terms.take(likely)
    matched, found = forms.match_terms(terms)
    owners = sizes.cumsum().searchsorted(likely.take(found), side="right")
    counts = (terms.take(found) & MAX_TERM_COUNT).astype(np.float32)
    shares = counts / (counts + _compute_length_penalty(view, question.average_length, slots.take(owners)))
    best = np.zeros(len(question.words) * len(slots), np.float32)
    np.maximum.at(best, forms.words.take(matched) * len(slots) + owners, shares * forms.weights.take(matched))
    scores: NDArray[np.float32] = best.reshape(-1, len(slots)).sum(axis=0)
    return scores


@dataclass(frozen=True, slots=True)
class WordForms:
    """All forms of all words of a query, as arrays."""

    hashes: NDArray[np.uint32]
    words: NDArray[np.int64]
    """Index of the word in the query."""
    weights: NDArray[np.float32]
    """Score for an infinite term frequency."""

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, int, float]]) -> WordForms:
        """Build the arrays from (hash, word index, weight) rows."""
        hashes, words, weights = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(np.asarray(hashes, np.uint32), np.asarray(words, np.int64), np.asarray(weights, np.float32))

    def find_likely(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the positions of terms whose first bits match a form, with few false positives."""
        prefilter = np.zeros(1 << PREFILTER_BITS, np.bool_)
        prefilter[self.hashes >> np.uint32(32 - COUNT_BITS - PREFILTER_BITS)] = True
        places: NDArray[np.int64] = prefilter.take(terms >> np.uint32(32 - PREFILTER_BITS)).nonzero()[0]
        return places

    def match_terms(self, terms: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs of indexes of equal forms and terms; two words may share a form."""
        same = self.hashes[:, None] == terms >> np.uint32(COUNT_BITS)
        forms, found = np.divmod(same.ravel().nonzero()[0], len(terms))  # much faster than `nonzero` of a 2-D array
        return forms, found


def _compute_length_penalty(view: SlotView, average_length: float, slots: Slots) -> NDArray[np.float32]:
    lengths = ROUNDED_LENGTHS.take(view.columns.length.take(slots))
    penalty: NDArray[np.float32] = lengths * (K1 * B / average_length) + K1 * (1 - B)
    return penalty
