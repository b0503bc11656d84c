"""Uploads on their way in: written to a local file, counted and hashed."""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import DiskFull, StorageFailed, TooLarge


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    sha256: str
    size: int


class IncomingFile:
    """An upload being written to the incoming folder."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._limit, self._size, self._hash = limit, 0, hashlib.sha256()
        self._file = path.open("xb", buffering=0)  # unbuffered: the pieces are large

    def write(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise TooLarge(
                f"The file exceeds the maximum allowed size ({self._limit >> 20} MB)",
                size_mb=round(self._size / (1 << 20), 1),
                max_size_mb=self._limit >> 20,
            )
        self._hash.update(piece)
        rest = memoryview(piece)
        try:
            while rest:  # a raw write may be partial, for example on a full disk
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            raise wrap_os_error(error) from error

    def finish(self) -> ReceivedFile:
        os.fsync(self._file.fileno())
        self._file.close()
        return ReceivedFile(self._hash.hexdigest(), self._size)

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wrap_os_error(error: OSError) -> StorageFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("The disk of the data folder is full", reason=str(error))
    return StorageFailed(f"Cannot store the file: {error.strerror or error}", reason=str(error))
