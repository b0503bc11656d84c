"""Which passages say the same, from the packed terms: copies are known by the words that they share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from knowledge.index.columns import COUNT_BITS
from knowledge.index.columns_view import SlotView
from knowledge.index.id_to_slot import Slots

WIDTH = 1024
"""Different words of a passage seldom fall on one of so many bits, and copies always agree."""
LONG = 50
"""Words: a shorter passage is a copy only if hardly a word differs."""
SAME_SHORT, SAME_LONG = 0.9, 0.75
"""The share of common words that makes a copy. Titles and headings are words too, and copies may stand under others."""


def copies(view: SlotView, slots: Slots) -> NDArray[np.bool_]:
    """For every two passages, whether one says what the other says."""
    held = _words_as_bits(view, slots)
    both = held @ held.T
    words = both.diagonal()
    either = words[:, None] + words - both
    same: NDArray[np.bool_] = both >= SAME_LONG * either
    if np.count_nonzero(same) > len(slots):  # more than each with itself, which is rare
        same &= (both >= SAME_SHORT * either) | (np.minimum(words[:, None], words) >= LONG)
    return same & (both > 0)


def _words_as_bits(view: SlotView, slots: Slots) -> NDArray[np.float32]:
    """A row a passage with ones where it holds a word; as fractions, since these multiply fastest."""
    terms, sizes = view.terms_of(slots)
    held = np.zeros(len(slots) * WIDTH, np.float32)
    rows = np.arange(0, len(held), WIDTH).repeat(sizes)
    held[rows + (terms >> np.uint32(COUNT_BITS) & np.uint32(WIDTH - 1))] = 1.0
    return held.reshape(len(slots), WIDTH)
