"""One bit a dimension: how vectors become codes of 49 bytes (of 384 dimensions) that FAISS can scan in no time.

Four dimensions together are one of sixteen entries in a table (product quantization), and a scan looks such tables up
in the processor's registers. What all passages have in common is set apart first: a model's vectors lie around one
axis, and what they say is how they stand off from it. docs/explanation/search.md has what that brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.index.files import Damaged

if TYPE_CHECKING:
    import faiss

Vectors: TypeAlias = NDArray[np.float32]
Codes: TypeAlias = NDArray[np.uint8]

GROUP, ENTRIES, BITS = 4, 16, 4
"""So many dimensions share a table of so many entries, which so many bits can tell apart."""
LEAST_SAMPLE, ROUNDS = 1024, 10


@dataclass(frozen=True, eq=False)
class Codebook:
    """What codes stand for."""

    axis: Vectors
    """The direction that all vectors share."""
    kept: float
    """How much of what stands off from the axis is left in the codes."""
    entries: Vectors
    """The tables, one after the other."""

    @classmethod
    def of(cls, sample: Vectors) -> Codebook:
        """The one that fits these vectors best."""
        import faiss

        one_thread()
        axis = _unit(sample.mean(axis=0))
        rows = _set_apart(np.resize(sample, (max(len(sample), LEAST_SAMPLE), len(axis))), axis)
        quantizer = _quantizer(len(axis))
        quantizer.pq.cp.niter = ROUNDS
        quantizer.train(rows)
        coded, off = quantizer.sa_decode(quantizer.sa_encode(rows))[:, :-GROUP], rows[:, :-GROUP]
        kept = float((coded * off).sum() / max(float((off * off).sum()), 1e-9))
        return cls(axis, kept, faiss.vector_to_array(quantizer.pq.centroids))

    def encoded(self, vectors: Vectors) -> Codes:
        one_thread()
        codes: Codes = self._empty.sa_encode(self.rows(vectors))
        return codes

    def rows(self, vectors: Vectors) -> Vectors:
        """Vectors as they are coded."""
        return _set_apart(vectors, self.axis)

    def question(self, vector: Vectors) -> Vectors:
        """A question for the codes: since they have lost some of the rest, the axis counts less by as much."""
        row = _set_apart(vector[None], self.axis)
        row[0, -GROUP] *= self.kept
        return row

    def scanned(self, codes: Codes) -> faiss.IndexPQFastScan:
        """The codes in the order in which they are scanned."""
        import faiss

        index = self._quantizer()
        faiss.copy_array_to_vector(np.ascontiguousarray(codes).ravel(), index.codes)
        index.ntotal = len(codes)
        return faiss.IndexPQFastScan(index)  # type: ignore[arg-type]

    @cached_property
    def _empty(self) -> faiss.IndexPQ:
        return self._quantizer()

    def _quantizer(self) -> faiss.IndexPQ:
        import faiss

        index = _quantizer(len(self.axis))
        faiss.copy_array_to_vector(self.entries, index.pq.centroids)
        index.is_trained = True
        return index

    def to_bytes(self) -> bytes:
        return np.concatenate(([np.float32(self.kept)], self.axis, self.entries)).astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, dimension: int) -> Codebook:
        numbers = np.frombuffer(data, "<f4").astype(np.float32)
        if len(numbers) != 1 + dimension + ENTRIES * _width(dimension):
            raise Damaged("The codebook is not what was written")
        return cls(numbers[1 : 1 + dimension], float(numbers[0]), numbers[1 + dimension :])


def code_size(dimension: int) -> int:
    return (_width(dimension) // GROUP * BITS + 7) // 8


def one_thread() -> None:
    """OpenMP's threads would cost a search more than they bring; the setting belongs to the calling thread."""
    import faiss  # in functions, since a server with few passages never needs it

    faiss.omp_set_num_threads(1)


def _width(dimension: int) -> int:
    """Whole groups, and one more for the axis."""
    return -(-dimension // GROUP) * GROUP + GROUP


def _set_apart(vectors: Vectors, axis: Vectors) -> Vectors:
    """How each stands off from the axis, and behind that how far it goes along it."""
    along = vectors @ axis
    rows = np.zeros((len(vectors), _width(len(axis))), np.float32)
    np.subtract(vectors, along[:, None] * axis, out=rows[:, : len(axis)])
    rows[:, -GROUP] = along
    return rows


def _unit(vector: Vectors) -> Vectors:
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def _quantizer(dimension: int) -> faiss.IndexPQ:
    import faiss

    width = _width(dimension)
    return faiss.IndexPQ(width, width // GROUP, BITS, faiss.METRIC_INNER_PRODUCT)
