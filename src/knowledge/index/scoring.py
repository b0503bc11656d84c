"""BM25 of chosen passages, from the packed terms: tantivy finds the best passages but cannot be asked about others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import Words
from knowledge.index.slots import COUNT_BITS, MOST_COUNTED, term_hash
from knowledge.index.view import Slots, SlotView, ranges

K1, B = 1.2, 0.75
SIEVE = 1 << 16
Idf = Callable[[str], float]


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


LENGTH_CLASSES = _length_classes()


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of the question: how often it stands there, and its forms with the number of passages that hold each."""

    forms: tuple[str, ...]
    repeats: int


def asked(words: Words) -> list[Asked]:
    return [Asked(forms, repeats) for forms, repeats in Counter(words.terms).items()]


def bm25(view: SlotView, question: list[Asked], weight: Idf, slots: Slots) -> NDArray[np.float32]:
    """The score of each slot; a word counts by its best form."""
    begins = view.columns.start[slots]
    sizes = view.ends(slots) - begins
    terms = view.packed_terms[ranges(begins, sizes)]
    forms = Forms.of(question, weight)
    matched = forms.maybe(terms)
    found, places = forms.matches(terms[matched])
    passages = np.cumsum(sizes).searchsorted(matched[found], side="right")
    counts = (terms[matched[found]] & MOST_COUNTED).astype(np.float32)
    shares = (K1 + 1) * counts / (counts + _length_penalty(view, slots)[passages])
    best = np.zeros((len(question), len(slots)), np.float32)
    np.maximum.at(best, (forms.words[places], passages), shares * forms.weights[places])
    scores: NDArray[np.float32] = np.asarray([word.repeats for word in question], np.float32) @ best
    return scores


@dataclass(frozen=True, slots=True)
class Forms:
    """Every form of every word of a question, ordered by its hash."""

    hashes: NDArray[np.uint32]
    words: NDArray[np.int64]
    """Which word of the question it is a form of."""
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, question: list[Asked], weight: Idf) -> Forms:
        rows = sorted((term_hash(form), at, weight(form)) for at, word in enumerate(question) for form in word.forms)
        hashes, words, weights = zip(*rows, strict=True)
        return cls(np.asarray(hashes, np.uint32), np.asarray(words), np.asarray(weights, np.float32))

    def maybe(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Where a term may be one of these: all that are, and one in ten thousand others."""
        low_bits = np.uint32(SIEVE - 1)
        sieve = np.zeros(SIEVE, np.bool_)
        sieve[self.hashes & low_bits] = True
        places: NDArray[np.int64] = np.flatnonzero(sieve[(terms >> np.uint32(COUNT_BITS)) & low_bits])
        return places

    def matches(self, terms: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a term and a form that are the same; two words may share a form."""
        wanted = terms >> np.uint32(COUNT_BITS)
        first, behind = self.hashes.searchsorted(wanted), self.hashes.searchsorted(wanted, side="right")
        return np.repeat(np.arange(len(terms)), behind - first), ranges(first, behind - first)


def _length_penalty(view: SlotView, slots: Slots) -> NDArray[np.float32]:
    lengths = view.columns.length[slots].astype(np.float32)
    lengths = LENGTH_CLASSES[np.searchsorted(LENGTH_CLASSES, lengths, side="right") - 1]
    penalty: NDArray[np.float32] = np.float32(K1) * (1 - B + B * lengths / np.float32(view.average_length))
    return penalty
