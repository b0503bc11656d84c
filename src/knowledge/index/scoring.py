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
    passages = Packed.of(view, slots)
    scores = np.zeros(len(slots), np.float32)
    for word in question:
        if len(word.forms) == 1:
            places, shares = passages.shares(word.forms[0])
            scores[places] += shares * np.float32(word.repeats * weight(word.forms[0]))
        else:
            scores += word.repeats * _best_form(passages, word.forms, weight)
    return scores


def _best_form(passages: Packed, forms: tuple[str, ...], weight: Idf) -> NDArray[np.float32]:
    best = np.zeros(len(passages.ends), np.float32)
    for form in forms:
        places, shares = passages.shares(form)
        best[places] = np.maximum(best[places], shares * np.float32(weight(form)))
    return best


@dataclass(frozen=True, slots=True)
class Packed:
    """The packed terms of some passages, one after the other."""

    terms: NDArray[np.uint32]
    hashes: NDArray[np.uint32]
    ends: NDArray[np.int64]
    penalty: NDArray[np.float32]

    @classmethod
    def of(cls, view: SlotView, slots: Slots) -> Packed:
        begins = view.columns.start[slots]
        sizes = view.ends(slots) - begins
        terms = view.packed_terms[ranges(begins, sizes)]
        return cls(terms, terms >> np.uint32(COUNT_BITS), np.cumsum(sizes), _length_penalty(view, slots))

    def shares(self, form: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Which passages hold a term, and the part of BM25 that depends on the passage, between 0 and 2.2."""
        found = (self.hashes == term_hash(form)).nonzero()[0]
        passages = self.ends.searchsorted(found, side="right")
        counts = (self.terms[found] & MOST_COUNTED).astype(np.float32)
        shares: NDArray[np.float32] = np.float32(K1 + 1) * counts / (counts + self.penalty[passages])
        return passages, shares


def _length_penalty(view: SlotView, slots: Slots) -> NDArray[np.float32]:
    lengths = view.columns.length[slots].astype(np.float32)
    lengths = LENGTH_CLASSES[np.searchsorted(LENGTH_CLASSES, lengths, side="right") - 1]
    penalty: NDArray[np.float32] = np.float32(K1) * (1 - B + B * lengths / np.float32(view.average_length))
    return penalty
