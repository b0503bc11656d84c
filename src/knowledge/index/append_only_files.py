"""Append-only files and columns; bytes after the last flush are truncated when a file is opened."""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from knowledge.filesystem.fsync import sync_folder

Number = TypeVar("Number", bound=np.generic)

CHECKSUM_BLOCK_BYTES = 1 << 20


class IndexDamaged(Exception):
    """The files do not match the manifest, so the index must be rebuilt."""


class Column(Generic[Number]):
    """A growing array in memory; rows are only appended, so a view that was handed out never changes."""

    def __init__(self, dtype: type[Number]) -> None:
        self._data: NDArray[Number] = np.empty(16, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def view(self) -> NDArray[Number]:
        return self._data[: self._count]

    def append(self, values: NDArray[Number]) -> None:
        needed = self._count + len(values)
        if needed > len(self._data):
            self._data = np.concatenate(
                (self.view(), np.empty(max(needed - self._count, self._count // 4 + 64), self._data.dtype))
            )
        self._data[self._count : needed] = values
        self._count = needed

    def replace(self, values: NDArray[Number]) -> None:
        """Replace the array by a new one; views of the old one stay valid."""
        self._data, self._count = values, len(values)

    def truncate(self, count: int) -> None:
        self._data, self._count = self._data[:count].copy(), count


class PersistedColumn(Column[Number]):
    """A column whose new rows are appended to a file on flush, with a CRC-32 over the whole file."""

    def __init__(self, path: Path, dtype: type[Number]) -> None:
        super().__init__(dtype)
        self._path, self._written, self.checksum = path, 0, 0

    def load(self, count: int, checksum: int) -> None:
        size = count * self._data.itemsize
        with self._path.open("r+b") as file:
            data = file.read(size)
        if len(data) != size or zlib.crc32(data) != checksum:
            raise IndexDamaged(f"{self._path.name} has {len(data)} of {size} bytes, or a wrong checksum")
        self.replace(np.frombuffer(data, self._data.dtype).copy())
        self._written, self.checksum = count, checksum

    def flush(self) -> None:
        if self._count == self._written and self._path.exists():
            return
        fresh = self.view()[self._written :].tobytes()
        with self._path.open("r+b" if self._path.exists() else "w+b") as file:
            file.seek(self._written * self._data.itemsize)
            file.truncate()
            file.write(fresh)
            sync_file(file.fileno())
        self.checksum = zlib.crc32(fresh, self.checksum)
        self._written = self._count


class MappedRows(Generic[Number]):
    """Rows in a file, written unbuffered and read through a memory map.

    The checksum is verified only by `is_damaged`, because reading all rows would slow down every start.
    """

    def __init__(self, path: Path, dtype: type[Number], width: int) -> None:
        self._dtype: np.dtype[Number] = np.dtype(dtype)
        self._width, self._count, self._mapped, self.checksum = width, 0, 0, 0
        self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        self._rows: NDArray[Number] = self._empty()

    def __len__(self) -> int:
        return self._count

    @property
    def _row_bytes(self) -> int:
        return self._width * self._dtype.itemsize

    def load(self, count: int, checksum: int) -> None:
        size = self._file.seek(0, os.SEEK_END)
        if size < count * self._row_bytes:
            raise IndexDamaged(f"{self._file.name} has {size} bytes instead of {count * self._row_bytes}")
        self._file.truncate(count * self._row_bytes)
        self._count, self.checksum = count, checksum

    def append(self, rows: NDArray[Number]) -> None:
        data = memoryview(np.ascontiguousarray(rows, self._dtype).reshape(-1).view(np.uint8).data)
        self._file.seek(self._count * self._row_bytes)
        checksum = zlib.crc32(data, self.checksum)
        while data:
            data = data[self._file.write(data) :]
        self._count, self.checksum = self._count + rows.size // self._width, checksum

    def view(self) -> NDArray[Number]:
        """Return all rows; a view that was handed out stays valid."""
        if self._mapped != self._count:
            size = self._count * self._row_bytes
            self._rows = self._empty() if not size else self._map(size)
            self._mapped = self._count
        return self._rows

    def truncate(self, count: int) -> None:
        if count != self._count:
            self._count = count
            self.checksum = self._compute_checksum()

    def is_damaged(self) -> bool:
        return self._compute_checksum() != self.checksum

    def _compute_checksum(self) -> int:
        rows, checksum = self.view(), 0
        for first in range(0, len(rows), block := max(CHECKSUM_BLOCK_BYTES // self._row_bytes, 1)):
            checksum = zlib.crc32(rows[first : first + block].data, checksum)
        return checksum

    def flush(self) -> None:
        sync_file(self._file.fileno())

    def close(self) -> None:
        self._rows = self._empty()
        self._file.close()

    def _map(self, size: int) -> NDArray[Number]:
        mapped = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._dtype).reshape(self._count, self._width)

    def _empty(self) -> NDArray[Number]:
        return np.empty((0, self._width), self._dtype)


def sync_file(descriptor: int) -> None:
    os.fsync(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file through a temporary file, fsync and rename, so that a crash leaves the old or the new content."""
    draft = path.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)
