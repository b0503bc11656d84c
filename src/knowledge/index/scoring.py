"""BM25 of chosen passages, from the packed terms: tantivy finds the best passages but cannot be asked about others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import Words
from knowledge.index.slots import COUNT_BITS, term_hash
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
    hashes = sorted({term_hash(form) for word in question for form in word.forms})
    shares = _saturated_counts(view, np.asarray(hashes, np.uint32), slots)
    places = {value: place for place, value in enumerate(hashes)}
    scores = np.zeros(len(slots), np.float32)
    for word in question:
        best = np.zeros(len(slots), np.float32)
        for form in word.forms:
            np.maximum(best, shares[places[term_hash(form)]] * np.float32(weight(form)), out=best)
        scores += word.repeats * best
    return scores


def _saturated_counts(view: SlotView, hashes: NDArray[np.uint32], slots: Slots) -> NDArray[np.float32]:
    """For each hash and slot the part of BM25 that depends on the passage, between 0 and 2.2."""
    begins = view.columns.start[slots]
    sizes = view.ends(slots) - begins
    packed = view.packed_terms[ranges(begins, sizes)]
    owners = np.repeat(np.arange(len(slots)), sizes)
    found = packed >> COUNT_BITS
    places = np.minimum(np.searchsorted(hashes, found), len(hashes) - 1)
    matched = np.flatnonzero(hashes[places] == found)
    counts = (packed[matched] & ((1 << COUNT_BITS) - 1)).astype(np.float32)
    owner = owners[matched]
    shares = np.zeros((len(hashes), len(slots)), np.float32)
    shares[places[matched], owner] = (K1 + 1) * counts / (counts + _length_penalty(view, slots)[owner])
    return shares


def _length_penalty(view: SlotView, slots: Slots) -> NDArray[np.float32]:
    lengths = view.columns.length[slots].astype(np.float32)
    lengths = LENGTH_CLASSES[np.searchsorted(LENGTH_CLASSES, lengths, side="right") - 1]
    penalty: NDArray[np.float32] = np.float32(K1) * (1 - B + B * lengths / np.float32(view.average_length))
    return penalty
