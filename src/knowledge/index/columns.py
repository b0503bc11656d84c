"""Columnar storage of chunks: append, delete by tombstone (alive mask), compact."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import IndexEntry
from knowledge.index.append_only_files import Column, IndexDamaged, MappedRows, PersistedColumn, write_atomically
from knowledge.index.bm25 import pack
from knowledge.index.columns_view import Columns, SlotLookup, Slots, SlotView, build_id_lookup, concatenate_ranges
from knowledge.index.manifest import Manifest

DEFAULT_LANGUAGE = "en"
"""Stemming language of chunks without a known language."""
MAX_RECENT_IDS = 4096
COPY_BLOCK_SLOTS = 16384
COLUMN_TYPES: dict[str, type[np.generic]] = {
    "chunk": np.int64,
    "document": np.int64,
    "collection": np.int64,
    "owner": np.int32,
    "day": np.int32,
    "doc_type": np.int32,
    "language": np.uint8,
    "length": np.uint16,
    "start": np.int64,
}


class NameNumbers:
    """Numbers for names, in order of first use."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.numbers = {name: number for number, name in enumerate(names)}

    def get_number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


class SlotWriter:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._columns = {
            name: PersistedColumn(folder / f"{name}.column", dtype) for name, dtype in COLUMN_TYPES.items()
        }
        self._tag_pairs = PersistedColumn(folder / "tags.column", np.int32)
        self._alive: Column[np.bool_] = Column(np.bool_)
        self._packed: MappedRows[np.uint32] = MappedRows(folder / "terms.rows", np.uint32, 1)
        self._postings: dict[str, Column[np.int32]] = {}
        self.doc_types, self.tags, self.languages = NameNumbers(), NameNumbers(), NameNumbers()
        self._lookup = SlotLookup(build_id_lookup(np.empty(0, np.int64), np.empty(0, np.int64)), {})
        self._live_count = self._token_count = 0
        self._by_language: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._alive)

    @property
    def dead_count(self) -> int:
        return len(self) - self._live_count

    # -- changing -------------------------------------------------------------------------------

    def delete_documents(self, documents: Sequence[int]) -> bool:
        """Mark the chunks of the documents as deleted; False if there were none."""
        column = self._columns["document"].view()
        struck = np.isin(column, documents) if len(documents) > 4 else _any_equal(column, documents)
        struck &= self._alive.view()
        if not struck.any():
            return False
        self._alive.replace(self._alive.view() & ~struck)
        self._update_totals(struck, -1)
        # The same chunks may be added again: snapshots that were handed out keep the slots that they know.
        self._lookup = SlotLookup(self._lookup.settled, dict(self._lookup.recent))
        return True

    def find_live_slots(self, ids: NDArray[np.int64]) -> Slots:
        """Return the slot of each chunk id; -1 for an unknown or deleted chunk."""
        slots = self._lookup.find_slots(ids)
        alive = self._alive.view()
        return np.where(alive.take(slots, mode="clip"), slots, -1) if len(alive) else np.full(len(ids), -1, np.int64)

    def _update_totals(self, slots: NDArray[np.bool_] | slice, sign: int) -> None:
        """Add or subtract these slots from the totals over live slots."""
        lengths, languages = self._columns["length"].view()[slots], self._columns["language"].view()[slots]
        self._live_count += sign * len(lengths)
        self._token_count += sign * int(lengths.sum(dtype=np.int64))
        for number, count in enumerate(np.bincount(languages).tolist()):
            self._by_language[number] += sign * count

    def add(self, entries: Sequence[IndexEntry]) -> None:
        """Append chunks; ValueError unless each document's chunks are in reading order, on which search relies."""
        require_reading_order(entries)
        first = len(self)
        packed = [pack(entry.terms) for entry in entries]
        sizes = np.asarray([len(terms) for terms in packed], np.int64)
        lengths = np.asarray([min(len(entry.terms), 65535) for entry in entries], np.uint16)
        starts = len(self._packed) + np.cumsum(sizes) - sizes
        self._packed.append(np.concatenate(packed))
        for name, values in self._make_column_values(entries, lengths, starts).items():
            self._columns[name].append(values)
        self._add_tags(first, entries)
        self._alive.append(np.ones(len(entries), np.bool_))
        self._lookup.recent.update((entry.chunk_id, first + at) for at, entry in enumerate(entries))
        self._update_totals(slice(first, None), 1)
        if len(self._lookup.recent) > max(MAX_RECENT_IDS, len(self) // 4):
            self._rebuild_lookup()

    def _make_column_values(
        self, entries: Sequence[IndexEntry], lengths: NDArray[np.uint16], starts: NDArray[np.int64]
    ) -> dict[str, NDArray[np.generic]]:
        return {
            "chunk": np.asarray([entry.chunk_id for entry in entries], np.int64),
            "document": np.asarray([entry.document_id for entry in entries], np.int64),
            "collection": np.asarray([entry.collection_id for entry in entries], np.int64),
            "owner": np.asarray([entry.owner for entry in entries], np.int32),
            "day": np.asarray([entry.day for entry in entries], np.int32),
            "doc_type": np.asarray([self.doc_types.get_number(entry.doc_type) for entry in entries], np.int32),
            "language": np.asarray(
                [self.languages.get_number(entry.language or DEFAULT_LANGUAGE) for entry in entries], np.uint8
            ),
            "length": lengths,
            "start": starts,
        }

    def _add_tags(self, first: int, entries: Sequence[IndexEntry]) -> None:
        for at, entry in enumerate(entries):
            for tag in dict.fromkeys(entry.tags):
                self._tag_pairs.append(np.asarray([first + at, self.tags.get_number(tag)], np.int32))
                self._get_posting(tag).append(np.asarray([first + at], np.int32))

    def _get_posting(self, tag: str) -> Column[np.int32]:
        posting = self._postings.get(tag)
        if posting is None:
            posting = self._postings[tag] = Column(np.int32)
        return posting

    def copy_live(self, other: SlotWriter, view: SlotView) -> None:
        """Copy the live slots of another writer and its view in order (compaction)."""
        kept = np.flatnonzero(view.alive)
        begins, ends = view.columns.start[kept], view.find_term_ends(kept)
        for name, column in self._columns.items():
            column.append(other._columns[name].view()[kept])
        sizes = ends - begins
        self._columns["start"].replace(np.cumsum(sizes) - sizes)
        for first in range(0, len(kept), COPY_BLOCK_SLOTS):
            part = slice(first, first + COPY_BLOCK_SLOTS)
            self._packed.append(view.packed_terms[concatenate_ranges(begins[part], sizes[part])])
        self.doc_types, self.languages = other.doc_types, other.languages
        places, pairs = np.cumsum(view.alive) - 1, other._tag_pairs.view().reshape(-1, 2)
        pairs = pairs[view.alive[pairs[:, 0]]]
        # Tags of deleted chunks are dropped, because the manifest lists tags by name.
        used, numbers = np.unique(pairs[:, 1], return_inverse=True)
        names = list(other.tags.numbers)
        self.tags = NameNumbers([names[number] for number in used.tolist()])
        self._tag_pairs.append(np.column_stack((places[pairs[:, 0]], numbers.ravel())).astype(np.int32).ravel())
        self._load_postings()
        self._restore_alive(np.ones(len(kept), np.bool_))

    def truncate(self, count: int, alive: NDArray[np.bool_]) -> None:
        """Remove the slots after `count`, to roll back a failed change."""
        if len(self) > count:
            self._packed.truncate(int(self._columns["start"].view()[count]))
        for column in self._columns.values():
            column.truncate(count)
        pairs = self._tag_pairs.view()
        self._tag_pairs.truncate(2 * int(np.searchsorted(pairs[::2], count)))
        for posting in self._postings.values():
            posting.truncate(int(np.searchsorted(posting.view(), count)))
        self._restore_alive(alive)

    def _restore_alive(self, alive: NDArray[np.bool_]) -> None:
        self._alive.replace(alive)
        self._live_count = self._token_count = 0
        self._by_language.clear()
        self._update_totals(alive, 1)
        self._rebuild_lookup()

    # -- publishing -----------------------------------------------------------------------------

    def view(self, embedded: NDArray[np.bool_]) -> SlotView:
        """Return a view; `embedded` marks the slots that have a vector."""
        if len(self._lookup.recent) > MAX_RECENT_IDS:
            self._rebuild_lookup()
        return SlotView(
            columns=self._view_columns(),
            alive=self._alive.view(),
            embedded=embedded,
            live_count=self._live_count,
            average_length=self._token_count / self._live_count if self._live_count else 1.0,
            lookup=self._lookup,
            doc_types=self.doc_types.numbers,
            postings=self._postings,
            packed_terms=self._packed.view()[:, 0],
            languages=self._list_live_languages(),
        )

    def _view_columns(self) -> Columns:
        return Columns(**{name: column.view() for name, column in self._columns.items()})  # type: ignore[arg-type]

    def _list_live_languages(self) -> tuple[str, ...]:
        names = list(self.languages.numbers)
        return tuple(names[number] for number, count in self._by_language.most_common() if count > 0)

    def _rebuild_lookup(self) -> None:
        slots = np.flatnonzero(self._alive.view())
        self._lookup = SlotLookup(build_id_lookup(self._columns["chunk"].view()[slots].view(np.int64), slots), {})

    # -- persistence ----------------------------------------------------------------------------

    def flush(self, seq: int) -> dict[str, int]:
        """Make all columns durable and return their checksums for the manifest."""
        for column in self._columns.values():
            column.flush()
        self._tag_pairs.flush()
        self._packed.flush()
        bits = np.packbits(self._alive.view()).tobytes()
        write_atomically(self.folder / f"alive-{seq}.bits", bits)
        sums = {name: column.checksum for name, column in self._columns.items()}
        return {**sums, "tags": self._tag_pairs.checksum, "alive": zlib.crc32(bits), "terms": self._packed.checksum}

    def load(self, manifest: Manifest) -> None:
        for name, column in self._columns.items():
            column.load(manifest.slots, manifest.checksums[name])
        self._tag_pairs.load(manifest.pairs, manifest.checksums["tags"])
        self._packed.load(manifest.packed_terms, manifest.checksums["terms"])
        self.doc_types, self.tags, self.languages = map(
            NameNumbers, (manifest.types, manifest.tags, manifest.languages)
        )
        self._load_postings()
        bits = (self.folder / f"alive-{manifest.seq}.bits").read_bytes()
        if zlib.crc32(bits) != manifest.checksums["alive"]:
            raise IndexDamaged(f"alive-{manifest.seq}.bits has a wrong checksum")
        alive = np.unpackbits(np.frombuffer(bits, np.uint8), count=manifest.slots).view(np.bool_)
        self._restore_alive(alive)
        if self._live_count != manifest.live:
            raise IndexDamaged(f"There are {self._live_count} live chunks instead of {manifest.live}")

    def find_damaged_files(self) -> Iterator[str]:
        """Yield the names of damaged files that `load` does not read completely."""
        if self._packed.is_damaged():
            yield "terms.rows"

    def _load_postings(self) -> None:
        pairs = self._tag_pairs.view().reshape(-1, 2)
        order = np.argsort(pairs[:, 1], kind="stable")
        slots, bounds = pairs[order, 0], np.searchsorted(pairs[order, 1], np.arange(len(self.tags.numbers) + 1))
        for tag, number in self.tags.numbers.items():
            self._get_posting(tag).replace(slots[bounds[number] : bounds[number + 1]])

    def delete_old_files(self, seq: int) -> None:
        """Delete the alive masks of other checkpoints."""
        for path in self.folder.glob("alive-*.bits"):
            if path.name != f"alive-{seq}.bits":
                path.unlink(missing_ok=True)

    @property
    def tag_pair_count(self) -> int:
        return len(self._tag_pairs)

    @property
    def packed_term_count(self) -> int:
        return len(self._packed)

    def close(self) -> None:
        self._packed.close()


def _any_equal(column: NDArray[np.generic], values: Sequence[int]) -> NDArray[np.bool_]:
    mask = np.zeros(len(column), np.bool_)
    for value in values:
        mask |= column == value
    return mask


def require_reading_order(entries: Sequence[IndexEntry]) -> None:
    for before, after in pairwise(entries):
        if before.document_id == after.document_id and before.position >= after.position:
            raise ValueError(f"Chunk {after.position} of document {after.document_id} follows chunk {before.position}")
