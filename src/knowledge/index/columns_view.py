"""Immutable view of the columns for searches: one slot for each chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import IndexFilter
from knowledge.index.append_only_files import Column

Slots: TypeAlias = NDArray[np.int64]

MAX_CACHED_SELECTION_BYTES, MIN_CACHED_SELECTIONS = 32 << 20, 4
# A cached selection takes one or two bytes for each slot.


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The live slots that match a filter; compared by identity, so that it can be a cache key."""

    mask: NDArray[np.bool_]
    count: int
    ratio: float
    """Share of the live slots; 1.0 means that nothing is filtered out."""
    embedded: NDArray[np.bool_]
    """The selected slots that have a vector."""
    embedded_count: int
    all_readable: bool
    """True if the caller may read every live slot."""


@dataclass(frozen=True, slots=True)
class Columns:
    """One value for each slot. `start` is the offset of the packed terms, `length` the number of terms."""

    chunk: NDArray[np.int64]
    document: NDArray[np.int64]
    collection: NDArray[np.int64]
    owner: NDArray[np.int32]
    day: NDArray[np.int32]
    doc_type: NDArray[np.int32]
    language: NDArray[np.uint8]
    length: NDArray[np.uint16]
    start: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SlotView:
    columns: Columns
    alive: NDArray[np.bool_]
    embedded: NDArray[np.bool_]
    """True for slots that have a vector."""
    live_count: int
    average_length: float
    lookup: SlotLookup
    doc_types: Mapping[str, int]
    postings: Mapping[str, Column[np.int32]]
    """Ascending slots by tag."""
    packed_terms: NDArray[np.uint32]
    languages: tuple[str, ...]
    _selections: dict[IndexFilter, Selection] = field(default_factory=dict)

    def select(self, within: IndexFilter) -> Selection:
        found = self._selections.get(within)
        if found is None:
            if len(self._selections) >= max(MIN_CACHED_SELECTIONS, MAX_CACHED_SELECTION_BYTES // (len(self.alive) + 1)):
                self._selections.clear()
            found = self._selections[within] = self._compute_selection(within)
        return found

    def find_slots(self, ids: NDArray[np.int64]) -> Slots:
        """Return the slot of each chunk id; -1 for an unknown or deleted chunk."""
        if not self.live_count:
            return np.full(len(ids), -1, np.int64)
        slots = self.lookup.find_slots(ids)
        slots[slots >= len(self.alive)] = -1  # appended after this view was published
        slots[~self.alive[slots]] = -1
        return slots

    def gather_terms(self, slots: Slots) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the concatenated packed terms of the slots and the number of terms of each."""
        begins = self.columns.start.take(slots)
        sizes = self.find_term_ends(slots) - begins
        return self.packed_terms.take(concatenate_ranges(begins, sizes)), sizes

    def find_term_ends(self, slots: Slots) -> NDArray[np.int64]:
        """Return the end offset of each slot's packed terms, which is the start of the next slot's."""
        starts = self.columns.start
        ends = starts.take(slots + 1, mode="clip")
        ends[slots == len(starts) - 1] = len(self.packed_terms)
        return ends

    def _compute_selection(self, within: IndexFilter) -> Selection:
        mask = self.alive & self._mask_readable(within)
        all_readable = int(np.count_nonzero(mask)) == self.live_count
        columns = self.columns
        for column, wanted in ((columns.collection, within.collections), (columns.document, within.documents)):
            if wanted:
                mask &= mask_one_of(column, wanted)
        if within.doc_types:
            mask &= mask_one_of(columns.doc_type, tuple(self.doc_types.get(name, -1) for name in within.doc_types))
        if within.day_from is not None:
            mask &= columns.day >= within.day_from
        if within.day_to is not None:
            mask &= columns.day <= within.day_to
        for tag in within.tags:
            mask &= self._mask_tagged(tag)
        embedded, count = mask & self.embedded, int(np.count_nonzero(mask))
        embedded_count = int(np.count_nonzero(embedded))
        ratio = count / self.live_count if self.live_count else 0.0
        return Selection(
            mask, count, ratio, mask if embedded_count == count else embedded, embedded_count, all_readable
        )

    def _mask_readable(self, within: IndexFilter) -> NDArray[np.bool_]:
        readable: NDArray[np.bool_] = self.columns.owner == within.owner
        if within.shared_collections:
            readable |= mask_one_of(self.columns.collection, within.shared_collections)
        return readable

    def _mask_tagged(self, tag: str) -> NDArray[np.bool_]:
        mask = np.zeros(len(self.alive), np.bool_)
        posting = self.postings.get(tag)
        if posting is not None:
            slots = posting.view()
            mask[slots[: np.searchsorted(slots, len(mask))]] = True
        return mask


def mask_one_of(column: NDArray[np.int64] | NDArray[np.int32], wanted: tuple[int, ...]) -> NDArray[np.bool_]:
    if len(wanted) > 4:
        return np.isin(column, wanted)
    mask: NDArray[np.bool_] = column == wanted[0]
    for value in wanted[1:]:
        mask |= column == value
    return mask


def concatenate_ranges(begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenation of the ranges [begin, begin + size)."""
    ends = sizes.cumsum()
    numbers: NDArray[np.int64] = (begins - ends + sizes).repeat(sizes)
    numbers += np.arange(len(numbers))
    return numbers


# -- chunk id to slot ----------------------------------------------------------------------------


MAX_TABLE_SPARSENESS = 4
# A dense table is used while the id range is at most 4 times the count; beyond that, sorted arrays need less memory.


@dataclass(frozen=True, slots=True)
class SortedIds:
    """Maps ids to slots by binary search, for sparse ids."""

    ids: NDArray[np.int64]
    slots: NDArray[np.int32]

    def find_slots(self, ids: NDArray[np.int64]) -> Slots:
        places = self.ids.searchsorted(ids)
        places[places == len(self.ids)] = 0
        return np.where(self.ids[places] == ids, self.slots[places], -1)


@dataclass(frozen=True, slots=True)
class IdTable:
    """Maps ids to slots by a dense table, for nearly consecutive ids."""

    before: int
    slots: NDArray[np.int32]
    """Slots of the ids from `before` on, -1 for an unknown id; other ids are clipped to the first or last row, -1."""

    def find_slots(self, ids: NDArray[np.int64]) -> Slots:
        return self.slots.take(ids - self.before, mode="clip").astype(np.int64)


def build_id_lookup(ids: NDArray[np.int64], slots: Slots) -> SortedIds | IdTable:
    first, span = (int(ids.min()), int(ids.max() - ids.min()) + 1) if len(ids) else (0, 1)
    if span <= MAX_TABLE_SPARSENESS * max(len(ids), 1):
        table = np.full(span + 2, -1, np.int32)
        table[ids - first + 1] = slots
        return IdTable(first - 1, table)
    order = ids.argsort()
    return SortedIds(ids[order], slots[order].astype(np.int32))


@dataclass(frozen=True, slots=True)
class SlotLookup:
    """Maps chunk ids to slots: an array for settled ids and a dict for recently added ones."""

    settled: SortedIds | IdTable
    recent: dict[int, int]

    def find_slots(self, ids: NDArray[np.int64]) -> Slots:
        slots = self.settled.find_slots(ids)
        if self.recent:
            newer = np.asarray([self.recent.get(chunk, -1) for chunk in ids.tolist()], np.int64)
            slots = np.where(newer >= 0, newer, slots)
        return slots
