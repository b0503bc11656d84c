"""BM25 of chosen passages from their packed terms: tantivy finds the best passages and cannot score others.

A question about one collection is weighed by the statistics of that collection alone, so what else is in the index
changes no score.
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
"""A term is kept as 26 bits of its hash and 6 bits of how often it stands in the passage."""
MAX_TERM_COUNT = (1 << COUNT_BITS) - 1
MAX_CACHED_QUERIES = 64
SIEVE_BITS = 12
"""So small a sieve stays in the fastest cache, and lets few others through: six words one term in seven hundred."""
NEAR_TERM_WEIGHT = 0.6
"""What a word counts that is one letter away from the one asked for."""
DocumentFrequency = Callable[[str], int]
"""How many passages hold a term."""


def hash_term(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) >> COUNT_BITS


def pack(terms: Sequence[str]) -> NDArray[np.uint32]:
    """The terms of a passage as numbers: what is needed to score it without asking tantivy."""
    packed = [
        hash_term(term) << COUNT_BITS | (count if count < MAX_TERM_COUNT else MAX_TERM_COUNT)
        for term, count in Counter(terms).items()
    ]
    return np.asarray(packed, np.uint32)


@lru_cache(1 << 12)
def idf(passage_count: int, document_frequency: int) -> float:
    """How telling a term is that `holding` of `passages` have; deleted ones may still be counted among the first."""
    return math.log(
        1 + (max(passage_count, document_frequency) - document_frequency + 0.5) / (document_frequency + 0.5)
    )


def _make_length_classes() -> NDArray[np.float32]:
    """The lengths that one byte can stand for, as tantivy and Lucene have it: exact up to 40, then ever coarser."""
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
    """One word of the question: those of its forms that some passage holds, and how much it counts."""

    forms: tuple[str, ...]
    weight: float
    """As often as it stands there, and less where it is only near what stands there."""


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """A question's words, each once, and what they can say about passages: weighed once for a whole search."""

    words: tuple[QueryWord, ...]
    ceiling: float
    """What no passage can score more than. The forms of a word are one word, held by whoever holds any of them."""
    forms: WordForms
    average_length: float
    """Of the passages that it is weighed by."""


def weigh_query(
    words: QueryTerms, passage_count: int, average_length: float, document_frequency: DocumentFrequency
) -> WeightedQuery:
    asked: list[QueryWord] = []
    rows: list[tuple[int, int, float]] = []
    total, instead = 0.0, dict(words.instead)
    for at, (forms, repeats) in enumerate(Counter(words.terms).items()):
        near = instead.get(forms)
        held = {form: count for form in near or forms if (count := document_frequency(form))}
        counts = repeats * NEAR_TERM_WEIGHT if near else float(repeats)
        asked.append(QueryWord(tuple(held), counts))
        rows += [(hash_term(form), at, (K1 + 1) * counts * idf(passage_count, count)) for form, count in held.items()]
        total += repeats * idf(passage_count, 0 if near else sum(held.values()))
    return WeightedQuery(tuple(asked), (K1 + 1) * total, WordForms.from_rows(rows), average_length)


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """How many passages there are, how long they are, and how many of them hold a term."""

    passages: int
    average_length: float
    holding: DocumentFrequency
    whole: bool = True
    """Of the whole index, as tantivy has them."""
    _weighted_queries: dict[QueryTerms, WeightedQuery] = field(default_factory=dict)

    def idf(self, form: str) -> float:
        return idf(self.passages, self.holding(form))

    def question(self, words: QueryTerms) -> WeightedQuery:
        """What the words weigh here; a search asks for it several times."""
        found = self._weighted_queries.get(words)
        if found is None:
            if len(self._weighted_queries) >= MAX_CACHED_QUERIES:
                self._weighted_queries.clear()
            found = weigh_query(words, self.passages, self.average_length, self.holding)
            self._weighted_queries[words] = found
        return found


def score_slots(view: SlotView, question: WeightedQuery, slots: Slots) -> NDArray[np.float32]:
    """The score of each slot; a word counts by its best form."""
    forms = question.forms
    terms, sizes = view.terms_of(slots)
    likely = forms.find_likely(terms)
    terms = terms.take(likely)
    matched, found = forms.match_terms(terms)
    passages = sizes.cumsum().searchsorted(likely.take(found), side="right")
    counts = (terms.take(found) & MAX_TERM_COUNT).astype(np.float32)
    shares = counts / (counts + _compute_length_penalty(view, question.average_length, slots.take(passages)))
    best = np.zeros(len(question.words) * len(slots), np.float32)
    np.maximum.at(best, forms.words.take(matched) * len(slots) + passages, shares * forms.weights.take(matched))
    scores: NDArray[np.float32] = best.reshape(-1, len(slots)).sum(axis=0)
    return scores


@dataclass(frozen=True, slots=True)
class WordForms:
    """Every form of every word of a question."""

    hashes: NDArray[np.uint32]
    words: NDArray[np.int64]
    """Which word of the question it is a form of."""
    weights: NDArray[np.float32]
    """What a passage scores that holds it without end."""

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, int, float]]) -> WordForms:
        """From the hash, the word and the weight of each."""
        hashes, words, weights = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(np.asarray(hashes, np.uint32), np.asarray(words, np.int64), np.asarray(weights, np.float32))

    def find_likely(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Where a term may be one of these by its first bits: all that are, and few others."""
        sieve = np.zeros(1 << SIEVE_BITS, np.bool_)
        sieve[self.hashes >> np.uint32(32 - COUNT_BITS - SIEVE_BITS)] = True
        places: NDArray[np.int64] = sieve.take(terms >> np.uint32(32 - SIEVE_BITS)).nonzero()[0]
        return places

    def match_terms(self, terms: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a form and a term that are the same; two words may share a form."""
        same = self.hashes[:, None] == terms >> np.uint32(COUNT_BITS)
        forms, found = np.divmod(same.ravel().nonzero()[0], len(terms))  # `nonzero` of two dimensions takes far longer
        return forms, found


def _compute_length_penalty(view: SlotView, average_length: float, slots: Slots) -> NDArray[np.float32]:
    lengths = ROUNDED_LENGTHS.take(view.columns.length.take(slots))
    penalty: NDArray[np.float32] = lengths * (K1 * B / average_length) + K1 * (1 - B)
    return penalty
