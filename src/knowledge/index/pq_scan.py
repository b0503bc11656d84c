"""The codes of all passages, for a first scan over everything, and those of some, for the filters of late."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from knowledge.index.columns_view import Selection
from knowledge.index.id_to_slot import Slots
from knowledge.index.quantizer import Codebook, Codes, Vectors, one_thread

if TYPE_CHECKING:
    import faiss

MOST_KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Saved:
    """A scanner on disk that knows the first of these rows, perhaps all."""

    path: Path
    rows: NDArray[np.float16]


class Scanner:
    """The codes in the order that FAISS's fast scan wants; made, or read, when the first search asks for it."""

    def __init__(self, book: Codebook, codes: Codes, saved: Saved | None = None) -> None:
        self._book, self._codes, self._saved = book, codes, saved
        self._index: faiss.Index | None = None
        self._lock = threading.Lock()

    def get(self) -> faiss.Index:
        one_thread()
        if self._index is None:
            with self._lock:
                if self._index is None:
                    self._index = self._read() or self._book.scanned(np.asarray(self._codes))
        return self._index

    def grown(self, codes: Codes, fresh: Vectors) -> Scanner:
        """Another one that knows `fresh` too; this one goes on as it is, for those who search it now."""
        import faiss

        grown = Scanner(self._book, codes)
        if self._index is not None:
            one_thread()
            # FAISS has no clone of this kind; through bytes a million passages take about 0.1 s.
            index = faiss.deserialize_index(faiss.serialize_index(self._index))
            index.add(self._book.rows(fresh))
            grown._index = index
        return grown

    def save(self, path: Path) -> None:
        import faiss

        draft = path.with_suffix(".new")
        faiss.write_index(self.get(), str(draft))
        draft.replace(path)

    def _read(self) -> faiss.Index | None:
        import faiss

        if self._saved is None or not self._saved.path.exists():
            return None
        try:
            index = faiss.read_index(str(self._saved.path))
        except RuntimeError:  # cut off while it was written; the codes are all there
            return None
        if index.ntotal < len(self._codes):
            rows = self._saved.rows[index.ntotal : len(self._codes)]
            index.add(self._book.rows(rows.astype(np.float32)))
        return index if index.ntotal == len(self._codes) else None


@dataclass(frozen=True, slots=True)
class Coded:
    """The first `len(codes)` slots, by a codebook that was made from `trained_on` vectors."""

    book: Codebook
    codes: Codes
    trained_on: int
    scanner: Scanner = field(repr=False)

    def nearest_of_all(self, question: Vectors, count: int) -> Slots:
        return _nearest(self.scanner.get(), self.book.question(question), min(count, len(self.codes)))


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the slots, their codes put together: to scan them alone is cheaper than to test all of them."""

    slots: Slots
    book: Codebook
    codes: faiss.IndexPQFastScan

    def nearest(self, question: Vectors, count: int) -> Slots:
        one_thread()
        chosen: Slots = self.slots[_nearest(self.codes, self.book.question(question), min(count, len(self.slots)))]
        return chosen


class Parts:
    """The parts of the latest filters, since who filters once filters again."""

    def __init__(self) -> None:
        self._kept: dict[Selection, Part] = {}
        self._bytes = 0

    def get(self, selection: Selection, coded: Coded) -> Part:
        part = self._kept.get(selection)
        if part is None:
            slots = selection.embedded_slots(len(coded.codes))
            part = Part(slots, coded.book, coded.book.scanned(coded.codes.take(slots, axis=0)))
            self._keep(selection, part, len(slots) * (coded.codes.shape[1] + slots.itemsize))
        return part

    def _keep(self, selection: Selection, part: Part, size: int) -> None:
        if self._bytes + size > MOST_KEPT_BYTES:
            self._kept, self._bytes = {}, 0
        if size <= MOST_KEPT_BYTES:
            self._kept[selection] = part
            self._bytes += size


def _nearest(index: faiss.Index, question: Vectors, count: int) -> Slots:
    """The first `count` where codes cannot tell them apart, which FAISS leaves out."""
    _, found = index.search(question, count)
    best: Slots = found[0]
    return best if best[-1] >= 0 else np.arange(count)
