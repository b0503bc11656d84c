"""Product quantization: vectors become codes of 49 bytes (for 384 dimensions) for FAISS fast scan.

Each group of four dimensions is encoded as one of sixteen centroids, so that a scan can keep its lookup tables in SIMD
registers. The component along the mean direction is separated first, because embeddings lie in a narrow cone around it
(docs/decisions/0019-product-quantization.md).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.index.append_only_files import IndexDamaged
from knowledge.index.columns_view import Selection

if TYPE_CHECKING:
    import faiss


MAX_CACHED_BYTES = 64 << 20

RowNumbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SavedScanner:
    """A FAISS index on disk that contains a prefix of these rows."""

    path: Path
    rows: NDArray[np.float16]


class CodeScanner:
    """The codes in FAISS fast-scan layout, built or read from disk on first use."""

    def __init__(self, codebook: Codebook, codes: Codes, saved: SavedScanner | None = None) -> None:
        self._codebook, self._codes, self._saved = codebook, codes, saved
        self._index: faiss.Index | None = None
        self._lock = threading.Lock()

    def get_index(self) -> faiss.Index:
        use_one_faiss_thread()
        if self._index is None:
            with self._lock:
                if self._index is None:
                    self._index = self._read_saved() or self._codebook.build_scan_index(np.asarray(self._codes))
        return self._index

    def extend(self, codes: Codes, fresh: Vectors) -> CodeScanner:
        """Return a copy with the vectors `fresh` added; running searches keep using this one."""
        import faiss

        grown = CodeScanner(self._codebook, codes)
        if self._index is not None:
            use_one_faiss_thread()
            # faiss.clone_index does not support this type; serializing a million codes takes about 0.1 s.
            index = faiss.deserialize_index(faiss.serialize_index(self._index))
            index.add(self._codebook.to_rows(fresh))
            grown._index = index
        return grown

    def save(self, path: Path) -> None:
        import faiss

        draft = path.with_suffix(".new")
        faiss.write_index(self.get_index(), str(draft))
        draft.replace(path)

    def _read_saved(self) -> faiss.Index | None:
        import faiss

        if self._saved is None or not self._saved.path.exists():
            return None
        try:
            index = faiss.read_index(str(self._saved.path))
        except RuntimeError:  # truncated by a crash; it is rebuilt from the codes
            return None
        if index.ntotal < len(self._codes):
            rows = self._saved.rows[index.ntotal : len(self._codes)]
            index.add(self._codebook.to_rows(rows.astype(np.float32)))
        return index if index.ntotal == len(self._codes) else None


@dataclass(frozen=True, slots=True)
class CodedVectors:
    """Codes of the first `len(codes)` rows; the codebook was trained when there were `trained_on` vectors."""

    codebook: Codebook
    codes: Codes
    trained_on: int
    scanner: CodeScanner = field(repr=False)

    def find_nearest(self, question: Vectors, count: int) -> RowNumbers:
        return _search_codes(
            self.scanner.get_index(), self.codebook.to_query_row(question), min(count, len(self.codes))
        )


@dataclass(frozen=True, slots=True)
class FilteredCodes:
    """Contiguous codes of the rows that match a filter, cheaper to scan than all codes with a mask."""

    rows: RowNumbers
    codebook: Codebook
    codes: faiss.IndexPQFastScan

    def find_nearest(self, question: Vectors, count: int) -> RowNumbers:
        use_one_faiss_thread()
        chosen: RowNumbers = self.rows[
            _search_codes(self.codes, self.codebook.to_query_row(question), min(count, len(self.rows)))
        ]
        return chosen


class FilteredCodesCache:
    """Cache of the filtered codes of recent filters."""

    def __init__(self) -> None:
        self._cached: dict[Selection, FilteredCodes] = {}
        self._bytes = 0

    def get(self, selection: Selection, mask: NDArray[np.bool_], coded: CodedVectors) -> FilteredCodes:
        """Return the codes of the selected rows; `mask` marks them."""
        part = self._cached.get(selection)
        if part is None:
            rows = np.flatnonzero(mask[: len(coded.codes)])
            part = FilteredCodes(rows, coded.codebook, coded.codebook.build_scan_index(coded.codes.take(rows, axis=0)))
            self._store(selection, part, len(rows) * (coded.codes.shape[1] + rows.itemsize))
        return part

    def _store(self, selection: Selection, part: FilteredCodes, size: int) -> None:
        if self._bytes + size > MAX_CACHED_BYTES:
            self._cached, self._bytes = {}, 0
        if size <= MAX_CACHED_BYTES:
            self._cached[selection] = part
            self._bytes += size


def _search_codes(index: faiss.Index, question: Vectors, count: int) -> RowNumbers:
    """Return the nearest codes; any `count` of them if all distances are equal, since FAISS then returns -1."""
    _, found = index.search(question, count)
    best: RowNumbers = found[0]
    return best if best[-1] >= 0 else np.arange(count)


Vectors: TypeAlias = NDArray[np.float32]
Codes: TypeAlias = NDArray[np.uint8]

DIMENSIONS_PER_GROUP, ENTRIES_PER_GROUP, BITS_PER_GROUP = 4, 16, 4
MIN_TRAINING_VECTORS, KMEANS_ROUNDS = 1024, 10


@dataclass(frozen=True, eq=False)
class Codebook:
    """Mean direction and centroids of a product quantizer."""

    axis: Vectors
    """Unit vector of the mean of the training vectors."""
    kept_share: float
    """Share of the residuals that the codes preserve, averaged over the training vectors."""
    entries: Vectors
    """Concatenated centroids of all groups."""

    @classmethod
    def train(cls, sample: Vectors) -> Codebook:
        """Train the centroids on a sample by k-means."""
        import faiss

        use_one_faiss_thread()
        axis = _normalize(sample.mean(axis=0))
        rows = _separate_axis(np.resize(sample, (max(len(sample), MIN_TRAINING_VECTORS), len(axis))), axis)
        quantizer = _new_quantizer(len(axis))
        quantizer.pq.cp.niter = KMEANS_ROUNDS
        quantizer.train(rows)
        coded, off = (
            quantizer.sa_decode(quantizer.sa_encode(rows))[:, :-DIMENSIONS_PER_GROUP],
            rows[:, :-DIMENSIONS_PER_GROUP],
        )
        kept = float((coded * off).sum() / max(float((off * off).sum()), 1e-9))
        return cls(axis, kept, faiss.vector_to_array(quantizer.pq.centroids))

    def encode(self, vectors: Vectors) -> Codes:
        use_one_faiss_thread()
        codes: Codes = self._encoder.sa_encode(self.to_rows(vectors))
        return codes

    def to_rows(self, vectors: Vectors) -> Vectors:
        """Return the vectors in the form in which they are encoded."""
        return _separate_axis(vectors, self.axis)

    def to_query_row(self, vector: Vectors) -> Vectors:
        """Return the query in code space, with the axis scaled down by as much as the codes lose of the residual."""
        row = _separate_axis(vector[None], self.axis)
        row[0, -DIMENSIONS_PER_GROUP] *= self.kept_share
        return row

    def build_scan_index(self, codes: Codes) -> faiss.IndexPQFastScan:
        """Return a FAISS fast-scan index of the codes."""
        import faiss

        index = self._make_quantizer()
        faiss.copy_array_to_vector(np.ascontiguousarray(codes).ravel(), index.codes)
        index.ntotal = len(codes)
        return faiss.IndexPQFastScan(index)  # type: ignore[arg-type]

    @cached_property
    def _encoder(self) -> faiss.IndexPQ:
        return self._make_quantizer()

    def _make_quantizer(self) -> faiss.IndexPQ:
        import faiss

        index = _new_quantizer(len(self.axis))
        faiss.copy_array_to_vector(self.entries, index.pq.centroids)
        index.is_trained = True
        return index

    def to_bytes(self) -> bytes:
        return np.concatenate(([np.float32(self.kept_share)], self.axis, self.entries)).astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, dimension: int) -> Codebook:
        numbers = np.frombuffer(data, "<f4").astype(np.float32)
        if len(numbers) != 1 + dimension + ENTRIES_PER_GROUP * _padded_width(dimension):
            raise IndexDamaged(f"The codebook has {len(data)} bytes, which does not fit dimension {dimension}")
        return cls(numbers[1 : 1 + dimension], float(numbers[0]), numbers[1 + dimension :])


def code_size_bytes(dimension: int) -> int:
    return (_padded_width(dimension) // DIMENSIONS_PER_GROUP * BITS_PER_GROUP + 7) // 8


def use_one_faiss_thread() -> None:
    """Limit FAISS to the calling thread, because starting OpenMP threads costs a search more than they save.

    The setting is per thread, so it is repeated before each call.
    """
    import faiss  # imported late, because a small index never needs it

    faiss.omp_set_num_threads(1)


def _padded_width(dimension: int) -> int:
    """Return the dimension rounded up to whole groups, plus one group for the axis."""
    return -(-dimension // DIMENSIONS_PER_GROUP) * DIMENSIONS_PER_GROUP + DIMENSIONS_PER_GROUP


def _separate_axis(vectors: Vectors, axis: Vectors) -> Vectors:
    """Return the residual orthogonal to the axis, followed by the component along it."""
    along = vectors @ axis
    rows = np.zeros((len(vectors), _padded_width(len(axis))), np.float32)
    np.subtract(vectors, along[:, None] * axis, out=rows[:, : len(axis)])
    rows[:, -DIMENSIONS_PER_GROUP] = along
    return rows


def _normalize(vector: Vectors) -> Vectors:
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def _new_quantizer(dimension: int) -> faiss.IndexPQ:
    import faiss

    width = _padded_width(dimension)
    return faiss.IndexPQ(width, width // DIMENSIONS_PER_GROUP, BITS_PER_GROUP, faiss.METRIC_INNER_PRODUCT)
