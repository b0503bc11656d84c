"""Vector search by cosine: a scan of the product-quantized codes finds candidates, which are rescored exactly.

Vectors are rows in the order in which they arrived, each with the number of its slot, because a chunk may be embedded
long after its words were added. New vectors stay in an uncompressed tail until there are enough of them to quantize
together. Views are immutable.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import IndexEntry
from knowledge.index.append_only_files import Column, IndexDamaged, MappedRows, PersistedColumn, write_atomically
from knowledge.index.columns_view import Selection, Slots
from knowledge.index.manifest import Manifest
from knowledge.index.product_quantization import (
    Codebook,
    CodedVectors,
    CodeScanner,
    FilteredCodesCache,
    RowNumbers,
    SavedScanner,
    Vectors,
    code_size_bytes,
)

Rows: TypeAlias = NDArray[np.float16]

RESCORED_CANDIDATES, REFERENCE_DIMENSION = 200, 384
# 200 rescored candidates give recall@10 .998 on real vectors (docs/explanation/search-experiments.md). Shorter vectors
# have less precise codes, so proportionally more candidates are rescored at the same cost.
FILTERED_RESCORED_SHARE, MIN_FILTERED_RESCORED, MAX_FILTERED_RESCORED = 0.25, 1000, 2000
# The nearest within a filter are farther away and closer together than the nearest of all chunks, so the codes separate
# them less well: 200 candidates give recall@100 .80 for a filter of 5 %, these numbers at least .996 for every filter
# (docs/explanation/performance.md). A filter that keeps fewer chunks than this is scanned exactly.
MIN_RESCORED_SHARE = 2 / 3
FULL_SCAN_RATIO = 0.4
# Below this share of matching slots only their codes are scanned.
FIRST_TAIL_CHUNKS, TAIL_CHUNKS = 4096, 2048
# Length of the tail at which it is quantized, the first time and later.
RETRAIN_FACTOR = 8
# The codebook is trained again when the number of vectors has grown by this factor.
MAX_TRAINING_CHUNKS, TRAINING_SAMPLE_ROWS = 65536, 16384
BLOCK_ROWS = 16384
MAX_CACHED_MASK_BYTES = 32 << 20
PRODUCT_BLOCK_NUMBERS = 1 << 18
# Half floats are widened and multiplied in blocks that stay in the CPU cache. OpenBLAS starts threads from 460,800
# numbers on, which costs a search several times what they save.


@dataclass(frozen=True, slots=True)
class VectorView:
    vectors: Rows
    slot_of_row: NDArray[np.int32]
    row_of_slot: NDArray[np.int32]
    """-1 for a slot without a vector."""
    has_replaced: bool
    """True if a newer row has replaced the vector of a slot."""
    tail: Vectors
    """The last rows as float32."""
    coded: CodedVectors | None
    _filtered_codes: FilteredCodesCache = field(default_factory=FilteredCodesCache)
    _row_masks: dict[Selection, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def embedded(self) -> NDArray[np.bool_]:
        """True for each slot with a vector."""
        return self.row_of_slot >= 0

    def search(self, question: Vectors, selection: Selection, limit: int) -> tuple[Slots, Vectors]:
        """Return the nearest of the selected slots with their cosines, nearest first."""
        mask = self._mask_rows(selection)
        rows = self._find_candidates(question, selection, mask, limit)
        scores = self._compute_row_cosines(question, rows)
        if len(self.tail):
            first = len(self.vectors) - len(self.tail)
            late = first + np.flatnonzero(mask[first:])
            rows = np.concatenate((rows, late))
            scores = np.concatenate((scores, self._compute_tail_cosines(question, late - first)))
        rows, scores = drop_below_best(rows, scores, limit)
        slots = self.slot_of_row.take(rows).astype(np.int64)
        order = sort_best_first(scores, slots)[:limit]
        return slots.take(order), scores.take(order)

    def compute_cosines(self, question: Vectors, slots: Slots) -> Vectors:
        """Return the cosine of each slot; all of them must have a vector."""
        return self._compute_row_cosines(question, self.row_of_slot.take(slots))

    def _compute_row_cosines(self, question: Vectors, rows: NDArray[np.integer]) -> Vectors:
        scaled, scores = question * WIDENING_FACTOR, np.empty(len(rows), np.float32)
        for part in iter_product_blocks(len(rows), len(question)):
            np.matmul(widen_half_floats(self.vectors.take(rows[part], axis=0)), scaled, out=scores[part])
        return scores

    def _mask_rows(self, selection: Selection) -> NDArray[np.bool_]:
        """Mark the rows of the selected slots, without replaced ones."""
        mask = self._row_masks.get(selection)
        if mask is None:
            mask = selection.embedded.take(self.slot_of_row)
            if self.has_replaced:
                mask &= self.row_of_slot.take(self.slot_of_row) == np.arange(len(self.slot_of_row))
            if len(self._row_masks) * len(mask) > MAX_CACHED_MASK_BYTES:
                self._row_masks.clear()
            self._row_masks[selection] = mask
        return mask

    def _find_candidates(
        self, question: Vectors, selection: Selection, mask: NDArray[np.bool_], limit: int
    ) -> RowNumbers:
        """Return the quantized rows to rescore exactly."""
        if self.coded is None or not selection.embedded_count:
            return np.empty(0, np.int64)
        count = len(self.coded.codes)
        most = max(count_rescored(len(question), selection), limit)
        share = min(1.0, selection.embedded_count / count)
        if share >= FULL_SCAN_RATIO:
            wanted = most if share == 1.0 else int(1.1 * most / share)
            found = self.coded.find_nearest(question, wanted)
            found = found[mask.take(found)]
            if len(found) >= max(MIN_RESCORED_SHARE * most, limit) or wanted >= count:
                return found[:most]
        part = self._filtered_codes.get(selection, mask, self.coded)
        return part.rows if len(part.rows) <= most else part.find_nearest(question, most)

    def _compute_tail_cosines(self, question: Vectors, places: Slots) -> Vectors:
        if 4 * len(places) < len(self.tail):
            return multiply_in_blocks(self.tail[places], question)
        scores: Vectors = multiply_in_blocks(self.tail, question)[places]
        return scores


def count_rescored(dimension: int, selection: Selection) -> int:
    scale = max(1, REFERENCE_DIMENSION // dimension)
    if selection.ratio == 1.0:
        return RESCORED_CANDIDATES * scale
    share = int(FILTERED_RESCORED_SHARE * selection.embedded_count)
    return min(max(share, MIN_FILTERED_RESCORED), MAX_FILTERED_RESCORED) * scale


def multiply_in_blocks(rows: Vectors, question: Vectors) -> Vectors:
    scores = np.empty(len(rows), np.float32)
    for part in iter_product_blocks(*rows.shape):
        np.matmul(rows[part], question, out=scores[part])
    return scores


def iter_product_blocks(count: int, dimension: int) -> Iterator[slice]:
    step = max(1, PRODUCT_BLOCK_NUMBERS // max(dimension, 1))
    return (slice(first, first + step) for first in range(0, count, step))


WIDENING_FACTOR = np.float32(2.0**112)


def widen_half_floats(rows: Rows) -> Vectors:
    """Convert float16 to float32 divided by 2**112, four times as fast as numpy's conversion.

    The bits of sign, exponent and mantissa are shifted into place. The different exponent bias is the factor of 2**112,
    by which the query is multiplied instead of each row.
    """
    bits = rows.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70000001)
    return bits.view(np.float32)


class VectorWriter:
    def __init__(self, folder: Path, dimension: int) -> None:
        self._folder, self._dimension = folder, dimension
        self._vectors: MappedRows[np.float16] = MappedRows(folder / "vectors.rows", np.float16, max(dimension, 1))
        self._slot_of_row: PersistedColumn[np.int32] = PersistedColumn(folder / "vector_slots.column", np.int32)
        self._row_of_slot: Column[np.int32] = Column(np.int32)
        self._replaced_count = 0
        self._codes: MappedRows[np.uint8] | None = None
        self.codes_name = ""
        self._coded: CodedVectors | None = None
        self._tail = np.empty((0, dimension), np.float32)
        self._tail_count = 0
        self._saved_count = 0

    # -- changing -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._vectors)

    def add(self, entries: Sequence[IndexEntry]) -> None:
        """Append the slots of these chunks, and rows for those that have a vector."""
        vectors = [entry.vector if self._dimension else None for entry in entries]
        rows = [vector for vector in vectors if vector is not None]
        self.add_rows(np.stack(rows) if rows else self._no_rows(), np.asarray([row is not None for row in vectors]))

    def add_rows(self, rows: Rows, embedded: NDArray[np.bool_]) -> None:
        """Append slots and the rows of those that are marked in `embedded`."""
        first, numbers = len(self._row_of_slot), np.full(len(embedded), -1, np.int32)
        numbers[embedded] = np.arange(len(self._vectors), len(self._vectors) + len(rows))
        self._row_of_slot.append(numbers)
        self._append_rows(first + np.flatnonzero(embedded), rows)

    def set_vectors(self, slots: Slots, rows: Rows) -> None:
        """Set the vectors of existing slots, each given once; a vector that a slot has already is not stored again."""
        if not self._dimension:
            return
        known = self._row_of_slot.view().take(slots)
        same = np.zeros(len(slots), np.bool_)
        same[known >= 0] = (self._vectors.view()[known[known >= 0]] == rows[known >= 0]).all(axis=1)
        slots, rows, known = slots[~same], rows[~same], known[~same]
        if not len(slots):
            return
        self._replaced_count += int(np.count_nonzero(known >= 0))
        numbers = self._row_of_slot.view().copy()  # older views keep theirs
        numbers[slots] = np.arange(len(self._vectors), len(self._vectors) + len(rows))
        self._row_of_slot.replace(numbers)
        self._append_rows(slots, rows)

    def _append_rows(self, slots: Slots, rows: Rows) -> None:
        if len(rows):
            self._vectors.append(rows)
            self._slot_of_row.append(slots.astype(np.int32))
            self._append_tail(rows.astype(np.float32))

    def _no_rows(self) -> Rows:
        return np.empty((0, self._dimension), np.float16)

    def _append_tail(self, rows: Vectors) -> None:
        needed = self._tail_count + len(rows)
        if needed > len(self._tail):
            grown = np.empty((max(needed, 2 * self._tail_count, 64), self._dimension), np.float32)
            grown[: self._tail_count] = self._tail[: self._tail_count]
            self._tail = grown
        self._tail[self._tail_count : needed] = rows
        self._tail_count = needed

    def copy_live(self, other: VectorWriter, alive: NDArray[np.bool_]) -> None:
        """Copy the live vectors of another writer (compaction)."""
        rows, slot_of_row = other._vectors.view(), other._slot_of_row.view()
        is_current = other._row_of_slot.view().take(slot_of_row) == np.arange(len(slot_of_row))
        kept = np.flatnonzero(alive.take(slot_of_row) & is_current)
        for first in range(0, len(kept), BLOCK_ROWS):
            self._vectors.append(rows[kept[first : first + BLOCK_ROWS]])
        self._slot_of_row.append((np.cumsum(alive) - 1)[slot_of_row[kept]].astype(np.int32))
        self._restore_row_of_slot(int(np.count_nonzero(alive)))
        if not self._dimension:
            return
        coded = kept[: int(np.searchsorted(kept, other.coded_count))]
        if len(coded) >= FIRST_TAIL_CHUNKS and other._coded is not None:
            self._copy_codes(other._coded, coded)
        elif len(kept) >= FIRST_TAIL_CHUNKS:
            self._quantize_all()
        self._append_tail(self._vectors.view()[self.coded_count :].astype(np.float32))

    def _copy_codes(self, coded: CodedVectors, kept: Slots) -> None:
        """Copy the codes of live slots with their codebook, because training a new one can take minutes."""
        self.codes_name = f"codes-{len(kept)}.rows"
        write_atomically(self._path_beside_codes(self.codes_name, ".book"), coded.codebook.to_bytes())
        self._codes = self._open_codes(self.codes_name)
        for first in range(0, len(kept), BLOCK_ROWS):
            self._codes.append(coded.codes[kept[first : first + BLOCK_ROWS]])
        codes = self._codes.view()
        self._coded = CodedVectors(coded.codebook, codes, coded.trained_on, CodeScanner(coded.codebook, codes))

    def _restore_row_of_slot(self, slot_count: int) -> None:
        slot_of_row, numbers = self._slot_of_row.view(), np.full(slot_count, -1, np.int32)
        numbers[slot_of_row] = np.arange(len(slot_of_row))  # the last row of a slot is its vector
        self._row_of_slot.replace(numbers)
        self._replaced_count = len(slot_of_row) - int(np.count_nonzero(numbers >= 0))

    def truncate(self, slot_count: int, count: int) -> None:
        """Remove the slots and rows after these counts, to roll back a failed change."""
        self._slot_of_row.truncate(count)
        self._restore_row_of_slot(slot_count)
        if self._dimension:
            self._vectors.truncate(count)
            self._clear_tail()
            if self.coded_count > count:
                self._truncate_codes(count)
            self._append_tail(self._vectors.view()[self.coded_count :].astype(np.float32))

    def _truncate_codes(self, count: int) -> None:
        assert self._coded is not None and self._codes is not None
        self._codes.truncate(count)
        codes, book = self._codes.view(), self._coded.codebook
        self._coded = replace(self._coded, codes=codes, scanner=CodeScanner(book, codes))
        if not count:
            self._codes.close()
            self._coded = self._codes = None

    def code_tail_if_long(self, *, min_count: int = 0) -> None:
        """Quantize the tail if it is long enough."""
        if self._tail_count < max(min_count, 1):
            return
        if self._coded is None or self._must_retrain():
            if len(self._vectors) >= FIRST_TAIL_CHUNKS:
                self._quantize_all()
        elif self._tail_count >= (min_count or TAIL_CHUNKS):
            self._code_tail()

    def _must_retrain(self) -> bool:
        assert self._coded is not None
        trained_on = self._coded.trained_on
        return trained_on < MAX_TRAINING_CHUNKS and len(self._vectors) >= RETRAIN_FACTOR * trained_on

    def _quantize_all(self) -> None:
        rows = self._vectors.view()
        sample = rows[:: max(1, len(rows) // TRAINING_SAMPLE_ROWS)].astype(np.float32)
        book, before, name = Codebook.train(sample), self._codes, f"codes-{len(rows)}.rows"
        write_atomically(self._path_beside_codes(name, ".book"), book.to_bytes())
        fresh = self._open_codes(name)
        for block in iter_blocks(rows):
            fresh.append(book.encode(block.astype(np.float32)))
        if before is not None and name != self.codes_name:
            before.close()
        self._codes, self.codes_name, self._saved_count = fresh, name, 0
        self._coded = CodedVectors(book, fresh.view(), len(rows), CodeScanner(book, fresh.view()))
        self._clear_tail()

    def _code_tail(self) -> None:
        assert self._coded is not None and self._codes is not None
        coded, fresh = self._coded, self._tail[: self._tail_count]
        self._codes.truncate(len(coded.codes))  # a failed attempt may have appended some
        self._codes.append(coded.codebook.encode(fresh))
        codes = self._codes.view()
        self._coded = CodedVectors(coded.codebook, codes, coded.trained_on, coded.scanner.extend(codes, fresh))
        self._clear_tail()

    def _clear_tail(self) -> None:
        self._tail, self._tail_count = np.empty((0, self._dimension), np.float32), 0

    def _open_codes(self, name: str) -> MappedRows[np.uint8]:
        return MappedRows(self._folder / name, np.uint8, code_size_bytes(self._dimension))

    # -- publishing -----------------------------------------------------------------------------

    def view(self) -> VectorView:
        return VectorView(
            self._vectors.view(),
            self._slot_of_row.view(),
            self._row_of_slot.view(),
            self._replaced_count > 0,
            self._tail[: self._tail_count],
            self._coded,
        )

    # -- persistence ----------------------------------------------------------------------------

    def flush(self) -> dict[str, int]:
        """Make vectors and codes durable and return their checksums for the manifest."""
        self._vectors.flush()
        self._slot_of_row.flush()
        if self._codes is not None and self._coded is not None:
            self._codes.flush()
            if len(self._codes) > 1.05 * self._saved_count:
                self._coded.scanner.save(self._scan_path())
                self._saved_count = len(self._codes)
        return {
            "vectors": self._vectors.checksum,
            "vector_slots": self._slot_of_row.checksum,
            "codes": self._codes.checksum if self._codes is not None else 0,
        }

    def find_damaged_files(self) -> Iterator[str]:
        """Yield the names of damaged files that `load` does not read completely."""
        if self._vectors.is_damaged():
            yield "vectors.rows"
        if self._codes is not None and self._codes.is_damaged():
            yield self.codes_name

    def load(self, manifest: Manifest) -> None:
        self._slot_of_row.load(manifest.vectors, manifest.checksums["vector_slots"])
        self._restore_row_of_slot(manifest.slots)
        if not self._dimension:
            return
        self._vectors.load(manifest.vectors, manifest.checksums["vectors"])
        if manifest.codes:
            self.codes_name = manifest.codes_name
            self._codes = self._open_codes(manifest.codes_name)
            self._codes.load(manifest.codes, manifest.checksums["codes"])
            book, codes = self._read_codebook(manifest.codebook), self._codes.view()
            scanner = CodeScanner(book, codes, SavedScanner(self._scan_path(), self._vectors.view()))
            self._coded = CodedVectors(book, codes, manifest.trained_on, scanner)
            self._saved_count = manifest.codes if self._scan_path().exists() else 0
        self._append_tail(self._vectors.view()[manifest.codes :].astype(np.float32))

    def _read_codebook(self, checksum: int) -> Codebook:
        data = self._path_beside_codes(self.codes_name, ".book").read_bytes()
        if zlib.crc32(data) != checksum:
            raise IndexDamaged("The codebook has a wrong checksum")
        return Codebook.from_bytes(data, self._dimension)

    def _path_beside_codes(self, codes_name: str, suffix: str) -> Path:
        return (self._folder / codes_name).with_suffix(suffix)

    def _scan_path(self) -> Path:
        return self._path_beside_codes(self.codes_name, ".faiss")

    @property
    def coded_count(self) -> int:
        return len(self._coded.codes) if self._coded is not None else 0

    @property
    def trained_on(self) -> int:
        return self._coded.trained_on if self._coded is not None else 0

    @property
    def codebook_checksum(self) -> int:
        return 0 if self._coded is None else zlib.crc32(self._coded.codebook.to_bytes())

    def delete_old_codes(self) -> None:
        """Delete the codes of older codebooks."""
        for path in self._folder.glob("codes-*"):
            if path.stem != Path(self.codes_name).stem:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        self._vectors.close()
        if self._codes is not None:
            self._codes.close()


def iter_blocks(rows: NDArray[np.float16]) -> Iterator[Rows]:
    for first in range(0, len(rows), BLOCK_ROWS):
        yield rows[first : first + BLOCK_ROWS]


def drop_below_best(slots: Slots, scores: Vectors, count: int) -> tuple[Slots, Vectors]:
    """Return the slots whose score is among the best `count`, in any order; all that are equal to the last of them."""
    if len(scores) <= 2 * count:
        return slots, scores
    kept = np.flatnonzero(scores >= np.partition(scores, -count)[-count])
    return slots.take(kept), scores.take(kept)


def sort_best_first(scores: NDArray[np.floating], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order of descending scores; equal scores are ordered by number."""
    order: NDArray[np.int64] = np.negative(scores, dtype=np.float64).argsort()
    ordered = scores.take(order)
    if (ordered[1:] == ordered[:-1]).any():  # rare; lexsort is slow
        order = np.lexsort((numbers, -scores))
    return order
