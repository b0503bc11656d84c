"""From the id of a passage to its slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Slots: TypeAlias = NDArray[np.int64]

CLOSE = 4
"""A table of ids may have so many times more rows than there are passages; two numbers of each cost as much."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """From ids to slots by halving: for ids that are far between."""

    ids: NDArray[np.int64]
    slots: NDArray[np.int32]

    def slots_of(self, ids: NDArray[np.int64]) -> Slots:
        places = self.ids.searchsorted(ids)
        places[places == len(self.ids)] = 0
        return np.where(self.ids[places] == ids, self.slots[places], -1)


@dataclass(frozen=True, slots=True)
class Table:
    """From ids to slots by one look: for ids that follow each other closely, which most do."""

    before: int
    slots: NDArray[np.int32]
    """Of this id and all after it; -1 where there is none, which is so of the first and the last."""

    def slots_of(self, ids: NDArray[np.int64]) -> Slots:
        return self.slots.take(ids - self.before, mode="clip").astype(np.int64)


def settled(ids: NDArray[np.int64], slots: Slots) -> Sorted | Table:
    first, span = (int(ids.min()), int(ids.max() - ids.min()) + 1) if len(ids) else (0, 1)
    if span <= CLOSE * max(len(ids), 1):
        table = np.full(span + 2, -1, np.int32)
        table[ids - first + 1] = slots
        return Table(first - 1, table)
    order = ids.argsort()
    return Sorted(ids[order], slots[order].astype(np.int32))


@dataclass(frozen=True, slots=True)
class Lookup:
    """From a passage's id to its slot: what was put in order, and a dict for what was added since."""

    settled: Sorted | Table
    recent: dict[int, int]

    def slots_of(self, ids: NDArray[np.int64]) -> Slots:
        slots = self.settled.slots_of(ids)
        if self.recent:
            newer = np.asarray([self.recent.get(chunk, -1) for chunk in ids.tolist()], np.int64)
            slots = np.where(newer >= 0, newer, slots)
        return slots
