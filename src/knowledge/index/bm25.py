"""BM25 of chosen passages, from the packed terms: tantivy finds the best passages but cannot be asked about others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import Words
from knowledge.index.columns import COUNT_BITS, MOST_COUNTED, term_hash
from knowledge.index.columns_view import SlotView
from knowledge.index.id_to_slot import Slots

K1, B = 1.2, 0.75
FIRST_BITS = 12
"""So small a sieve stays in the fastest cache, and lets few others through: six words one term in seven hundred."""
NEARBY = 0.6
"""What a word counts that is one letter away from the one asked for."""
Holding = Callable[[str], int]
"""How many passages hold a term."""


@lru_cache(1 << 12)
def idf(passages: int, holding: int) -> float:
    """How telling a term is that `holding` of `passages` have; deleted ones may still be counted among the first."""
    return math.log(1 + (max(passages, holding) - holding + 0.5) / (holding + 0.5))


def _length_classes() -> NDArray[np.float32]:
    """The lengths that one byte can stand for, as tantivy and Lucene have it: exact up to 40, then ever coarser."""
    free = 24
    lengths = list(range(free))
    for code in range(256 - free):
        shift = (code >> 3) - 1
        lengths.append(free + (code & 7 if shift < 0 else ((code & 7) | 8) << shift))
    return np.asarray(lengths, np.float32)


def _rounded_lengths() -> NDArray[np.float32]:
    classes = _length_classes()
    return classes[np.searchsorted(classes, np.arange(1 << 16, dtype=np.float32), side="right") - 1]


ROUNDED_LENGTHS = _rounded_lengths()


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of the question: those of its forms that some passage holds, and how much it counts."""

    forms: tuple[str, ...]
    counts: float
    """As often as it stands there, and less where it is only near what stands there."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question's words, each once, and what they can say about passages: weighed once for a whole search."""

    words: tuple[Asked, ...]
    ceiling: float
    """What no passage can score more than. The forms of a word are one word, held by whoever holds any of them."""
    forms: Forms
    average_length: float
    """Of the passages that it is weighed by."""


def weighed(words: Words, passages: int, average_length: float, holding: Holding) -> Question:
    asked: list[Asked] = []
    rows: list[tuple[int, int, float]] = []
    total, instead = 0.0, dict(words.instead)
    for at, (forms, repeats) in enumerate(Counter(words.terms).items()):
        near = instead.get(forms)
        held = {form: count for form in near or forms if (count := holding(form))}
        counts = repeats * NEARBY if near else float(repeats)
        asked.append(Asked(tuple(held), counts))
        rows += [(term_hash(form), at, (K1 + 1) * counts * idf(passages, count)) for form, count in held.items()]
        total += repeats * idf(passages, 0 if near else sum(held.values()))
    return Question(tuple(asked), (K1 + 1) * total, Forms.of(rows), average_length)


def bm25(view: SlotView, question: Question, slots: Slots) -> NDArray[np.float32]:
    """The score of each slot; a word counts by its best form."""
    forms = question.forms
    terms, sizes = view.terms_of(slots)
    likely = forms.likely(terms)
    terms = terms.take(likely)
    matched, found = forms.matches(terms)
    passages = sizes.cumsum().searchsorted(likely.take(found), side="right")
    counts = (terms.take(found) & MOST_COUNTED).astype(np.float32)
    shares = counts / (counts + _length_penalty(view, question.average_length, slots.take(passages)))
    best = np.zeros(len(question.words) * len(slots), np.float32)
    np.maximum.at(best, forms.words.take(matched) * len(slots) + passages, shares * forms.weights.take(matched))
    scores: NDArray[np.float32] = best.reshape(-1, len(slots)).sum(axis=0)
    return scores


@dataclass(frozen=True, slots=True)
class Forms:
    """Every form of every word of a question."""

    hashes: NDArray[np.uint32]
    words: NDArray[np.int64]
    """Which word of the question it is a form of."""
    weights: NDArray[np.float32]
    """What a passage scores that holds it without end."""

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, float]]) -> Forms:
        """From the hash, the word and the weight of each."""
        hashes, words, weights = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(np.asarray(hashes, np.uint32), np.asarray(words, np.int64), np.asarray(weights, np.float32))

    def likely(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Where a term may be one of these by its first bits: all that are, and few others."""
        sieve = np.zeros(1 << FIRST_BITS, np.bool_)
        sieve[self.hashes >> np.uint32(32 - COUNT_BITS - FIRST_BITS)] = True
        places: NDArray[np.int64] = sieve.take(terms >> np.uint32(32 - FIRST_BITS)).nonzero()[0]
        return places

    def matches(self, terms: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a form and a term that are the same; two words may share a form."""
        same = self.hashes[:, None] == terms >> np.uint32(COUNT_BITS)
        forms, found = np.divmod(same.ravel().nonzero()[0], len(terms))  # `nonzero` of two dimensions takes far longer
        return forms, found


def _length_penalty(view: SlotView, average_length: float, slots: Slots) -> NDArray[np.float32]:
    lengths = ROUNDED_LENGTHS.take(view.columns.length.take(slots))
    penalty: NDArray[np.float32] = lengths * (K1 * B / average_length) + K1 * (1 - B)
    return penalty
