"""The writer's side of the columns: passages are appended, documents are struck out, views are published."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import Entry
from knowledge.index.columns_view import Columns, SlotView, ranges
from knowledge.index.files import Column, Damaged, KeptColumn, MappedRows, write_whole
from knowledge.index.id_to_slot import Lookup, settled
from knowledge.index.manifest import Manifest

COUNT_BITS = 6
"""A term is kept as 26 bits of its hash and 6 bits of how often it stands in the passage."""
MOST_COUNTED = (1 << COUNT_BITS) - 1
DEFAULT_LANGUAGE = "en"
"""Whose stems a passage has whose language is not known."""
MOST_RECENT = 4096
BLOCK = 16384
COLUMNS: dict[str, type[np.generic]] = {
    "chunk": np.int64,
    "document": np.int64,
    "collection": np.int64,
    "owner": np.int32,
    "day": np.int32,
    "doc_type": np.int32,
    "language": np.uint8,
    "length": np.uint16,
    "start": np.int64,
    "embedded": np.bool_,
}


class Names:
    """Words as small numbers, in the order in which they came."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.numbers = {name: number for number, name in enumerate(names)}

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


class SlotWriter:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._columns = {name: KeptColumn(folder / f"{name}.column", dtype) for name, dtype in COLUMNS.items()}
        self._pairs = KeptColumn(folder / "tags.column", np.int32)
        self._alive: Column[np.bool_] = Column(np.bool_)
        self._packed: MappedRows[np.uint32] = MappedRows(folder / "terms.rows", np.uint32, 1)
        self._postings: dict[str, Column[np.int32]] = {}
        self.types, self.tags, self.languages = Names(), Names(), Names()
        self._lookup = Lookup(settled(np.empty(0, np.int64), np.empty(0, np.int64)), {})
        self._live = self._tokens = 0
        self._by_language: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._alive)

    @property
    def dead(self) -> int:
        return len(self) - self._live

    # -- changing -------------------------------------------------------------------------------

    def strike(self, documents: Sequence[int]) -> bool:
        """Take the documents' passages out; False when there were none."""
        column = self._columns["document"].view()
        struck = np.isin(column, documents) if len(documents) > 4 else _any_equal(column, documents)
        struck &= self._alive.view()
        if not struck.any():
            return False
        self._alive.replace(self._alive.view() & ~struck)
        self._count(struck, -1)
        return True

    def _count(self, slots: NDArray[np.bool_] | slice, sign: int) -> None:
        """Keep the sums over live slots right when these come or go."""
        lengths, languages = self._columns["length"].view()[slots], self._columns["language"].view()[slots]
        self._live += sign * len(lengths)
        self._tokens += sign * int(lengths.sum(dtype=np.int64))
        for number, count in enumerate(np.bincount(languages).tolist()):
            self._by_language[number] += sign * count

    def add(self, entries: Sequence[Entry]) -> None:
        first = len(self)
        packed = [pack(entry.terms) for entry in entries]
        sizes = np.asarray([len(terms) for terms in packed], np.int64)
        lengths = np.asarray([min(len(entry.terms), 65535) for entry in entries], np.uint16)
        starts = len(self._packed) + np.cumsum(sizes) - sizes
        self._packed.append(np.concatenate(packed))
        for name, values in self._values(entries, lengths, starts).items():
            self._columns[name].append(values)
        self._tag(first, entries)
        self._alive.append(np.ones(len(entries), np.bool_))
        self._lookup.recent.update((entry.chunk_id, first + at) for at, entry in enumerate(entries))
        self._count(slice(first, None), 1)
        if len(self._lookup.recent) > max(MOST_RECENT, len(self) // 4):
            self._sort()

    def _values(
        self, entries: Sequence[Entry], lengths: NDArray[np.uint16], starts: NDArray[np.int64]
    ) -> dict[str, NDArray[np.generic]]:
        return {
            "chunk": np.asarray([entry.chunk_id for entry in entries], np.int64),
            "document": np.asarray([entry.document_id for entry in entries], np.int64),
            "collection": np.asarray([entry.collection_id for entry in entries], np.int64),
            "owner": np.asarray([entry.owner for entry in entries], np.int32),
            "day": np.asarray([entry.day for entry in entries], np.int32),
            "doc_type": np.asarray([self.types.number(entry.doc_type) for entry in entries], np.int32),
            "language": np.asarray(
                [self.languages.number(entry.language or DEFAULT_LANGUAGE) for entry in entries], np.uint8
            ),
            "length": lengths,
            "start": starts,
            "embedded": np.asarray([entry.vector is not None for entry in entries], np.bool_),
        }

    def _language(self, entry: Entry) -> int:
        return self.languages.number(entry.language or DEFAULT_LANGUAGE)

    def _tag(self, first: int, entries: Sequence[Entry]) -> None:
        for at, entry in enumerate(entries):
            for tag in dict.fromkeys(entry.tags):
                self._pairs.append(np.asarray([first + at, self.tags.number(tag)], np.int32))
                self._posting(tag).append(np.asarray([first + at], np.int32))

    def _posting(self, tag: str) -> Column[np.int32]:
        posting = self._postings.get(tag)
        if posting is None:
            posting = self._postings[tag] = Column(np.int32)
        return posting

    def add_live(self, other: SlotWriter) -> None:
        """Take over what is live in another one, in its order: compaction."""
        view = other.view()
        kept = np.flatnonzero(view.alive)
        begins, ends = view.columns.start[kept], view.ends(kept)
        for name, column in self._columns.items():
            column.append(other._columns[name].view()[kept])
        sizes = ends - begins
        self._columns["start"].replace(np.cumsum(sizes) - sizes)
        for first in range(0, len(kept), BLOCK):
            part = slice(first, first + BLOCK)
            self._packed.append(view.packed_terms[ranges(begins[part], sizes[part])])
        self.types, self.languages = other.types, other.languages
        places, pairs = np.cumsum(view.alive) - 1, other._pairs.view().reshape(-1, 2)
        pairs = pairs[view.alive[pairs[:, 0]]]
        # A tag that only deleted passages had is forgotten: the manifest lists them by name.
        used, numbers = np.unique(pairs[:, 1], return_inverse=True)
        names = list(other.tags.numbers)
        self.tags = Names([names[number] for number in used.tolist()])
        self._pairs.append(np.column_stack((places[pairs[:, 0]], numbers.ravel())).astype(np.int32).ravel())
        self._load_postings()
        self._restore(np.ones(len(kept), np.bool_))

    def cut(self, count: int, alive: NDArray[np.bool_]) -> None:
        """Forget what was added behind `count`, after a change that failed."""
        if len(self) > count:
            self._packed.cut(int(self._columns["start"].view()[count]))
        for column in self._columns.values():
            column.cut(count)
        pairs = self._pairs.view()
        self._pairs.cut(2 * int(np.searchsorted(pairs[::2], count)))
        for posting in self._postings.values():
            posting.cut(int(np.searchsorted(posting.view(), count)))
        self._restore(alive)

    def _restore(self, alive: NDArray[np.bool_]) -> None:
        self._alive.replace(alive)
        self._live = self._tokens = 0
        self._by_language.clear()
        self._count(alive, 1)
        self._sort()

    # -- publishing -----------------------------------------------------------------------------

    def view(self) -> SlotView:
        if len(self._lookup.recent) > MOST_RECENT:
            self._sort()
        return SlotView(
            columns=self._all_columns(),
            alive=self._alive.view(),
            live=self._live,
            average_length=self._tokens / self._live if self._live else 1.0,
            lookup=self._lookup,
            types=self.types.numbers,
            postings=self._postings,
            packed_terms=self._packed.view()[:, 0],
            languages=self._live_languages(),
        )

    def _all_columns(self) -> Columns:
        return Columns(**{name: column.view() for name, column in self._columns.items()})  # type: ignore[arg-type]

    def _live_languages(self) -> tuple[str, ...]:
        names = list(self.languages.numbers)
        return tuple(names[number] for number, count in self._by_language.most_common() if count > 0)

    def _sort(self) -> None:
        slots = np.flatnonzero(self._alive.view())
        self._lookup = Lookup(settled(self._columns["chunk"].view()[slots].view(np.int64), slots), {})

    # -- keeping --------------------------------------------------------------------------------

    def flush(self, seq: int) -> dict[str, int]:
        """Make it all durable; answers the checksums for the manifest."""
        for column in self._columns.values():
            column.flush()
        self._pairs.flush()
        self._packed.flush()
        bits = np.packbits(self._alive.view()).tobytes()
        write_whole(self.folder / f"alive-{seq}.bits", bits)
        sums = {name: column.checksum for name, column in self._columns.items()}
        return {**sums, "tags": self._pairs.checksum, "alive": zlib.crc32(bits), "terms": self._packed.checksum}

    def load(self, manifest: Manifest) -> None:
        for name, column in self._columns.items():
            column.load(manifest.slots, manifest.checksums[name])
        self._pairs.load(manifest.pairs, manifest.checksums["tags"])
        self._packed.load(manifest.packed_terms, manifest.checksums["terms"])
        self.types, self.tags, self.languages = map(Names, (manifest.types, manifest.tags, manifest.languages))
        self._load_postings()
        bits = (self.folder / f"alive-{manifest.seq}.bits").read_bytes()
        if zlib.crc32(bits) != manifest.checksums["alive"]:
            raise Damaged("The list of live passages is not what was written")
        alive = np.unpackbits(np.frombuffer(bits, np.uint8), count=manifest.slots).view(np.bool_)
        self._restore(alive)
        if self._live != manifest.live:
            raise Damaged("The number of passages is not what was written")

    def damaged(self) -> Iterator[str]:
        """The files that are not read when an index is opened, and are not what was written."""
        if self._packed.is_damaged():
            yield "terms.rows"

    def _load_postings(self) -> None:
        pairs = self._pairs.view().reshape(-1, 2)
        order = np.argsort(pairs[:, 1], kind="stable")
        slots, bounds = pairs[order, 0], np.searchsorted(pairs[order, 1], np.arange(len(self.tags.numbers) + 1))
        for tag, number in self.tags.numbers.items():
            self._posting(tag).replace(slots[bounds[number] : bounds[number + 1]])

    def sweep(self, seq: int) -> None:
        """Older lists of live passages."""
        for path in self.folder.glob("alive-*.bits"):
            if path.name != f"alive-{seq}.bits":
                path.unlink(missing_ok=True)

    @property
    def pairs(self) -> int:
        return len(self._pairs)

    @property
    def packed_terms(self) -> int:
        return len(self._packed)

    def close(self) -> None:
        self._packed.close()


def _any_equal(column: NDArray[np.generic], values: Sequence[int]) -> NDArray[np.bool_]:
    mask = np.zeros(len(column), np.bool_)
    for value in values:
        mask |= column == value
    return mask


def term_hash(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) >> COUNT_BITS


def pack(terms: Sequence[str]) -> NDArray[np.uint32]:
    """The terms of a passage as numbers: what is needed to score it without asking tantivy."""
    packed = [
        term_hash(term) << COUNT_BITS | (count if count < MOST_COUNTED else MOST_COUNTED)
        for term, count in Counter(terms).items()
    ]
    return np.asarray(packed, np.uint32)
