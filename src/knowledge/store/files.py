"""Content-addressed storage of originals: the file name is the SHA-256 of the content."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from knowledge import failpoints
from knowledge.errors import DiskFull, StorageFailed, TooLarge
from knowledge.filesystem.fsync import sync_folder

READ_CHUNK_BYTES = 1 << 20


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


class FileStore:
    """The folder of originals; a file is pinned until the row that references it is committed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._incoming = root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._pins: Counter[str] = Counter()
        self._holders = 0
        self._deferred: set[str] = set()

    @contextmanager
    def hold_deletions(self, is_referenced: Callable[[str], bool]) -> Iterator[None]:
        """Defer all deletions until the block ends."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                gone, self._deferred = (set(), self._deferred) if self._holders else (self._deferred, set())
            for sha256 in gone:
                self.discard(sha256, is_referenced)

    def get_path(self, sha256: str) -> Path:
        return original_path(self.root, sha256)

    def open_incoming(self, limit: int) -> IncomingFile:
        try:
            return IncomingFile(self._incoming / secrets.token_hex(16), limit)
        except OSError as error:
            raise wrap_os_error(error) from error

    @contextmanager
    def adopt_incoming(self, incoming: IncomingFile, is_referenced: Callable[[str], bool]) -> Iterator[ReceivedFile]:
        """Move a finished upload into place and pin it while its row is written; discard it if that fails."""
        try:
            received = incoming.finish()
            with self._lock:
                self._pins[received.sha256] += 1
        except OSError as error:
            incoming.discard()
            raise wrap_os_error(error) from error
        moved = written = False
        try:
            moved = self._move_into_place(incoming.path, received.sha256)
            failpoints.trigger("files.placed")
            yield received
            written = True
        except OSError as error:
            raise wrap_os_error(error) from error
        finally:
            if not moved:
                incoming.path.unlink(missing_ok=True)
            self._unpin(received.sha256)
            if not written:
                self.discard(received.sha256, is_referenced)

    def _unpin(self, sha256: str) -> None:
        with self._lock:
            self._pins[sha256] -= 1
            if not self._pins[sha256]:
                del self._pins[sha256]

    def discard(self, sha256: str, is_referenced: Callable[[str], bool]) -> int:
        """Delete an unreferenced original and return the bytes freed."""
        with self._lock:
            path = self.get_path(sha256)
            if self._pins[sha256] or is_referenced(sha256) or not path.exists():
                return 0
            if self._holders:
                self._deferred.add(sha256)
                return 0
            size = path.stat().st_size
            path.unlink()
            return size

    def sweep_unreferenced(self, is_referenced: Callable[[str], bool], older_than: float = 3600.0) -> int:
        """Delete unreferenced originals and abandoned uploads; return their number."""
        horizon = time.time() - older_than
        stray = [path for path in self._incoming.iterdir() if path.stat().st_mtime <= horizon]
        for path in stray:
            path.unlink(missing_ok=True)
        old = [path for path in self.iter_files() if path.stat().st_mtime <= horizon]
        return len(stray) + sum(bool(self.discard(path.name, is_referenced)) for path in old)

    def iter_files(self) -> Iterator[Path]:
        for folder in sorted(self.root.iterdir()):
            if folder.is_dir() and folder != self._incoming:
                yield from sorted(folder.iterdir())

    def _move_into_place(self, incoming: Path, sha256: str) -> bool:
        """Move an upload to its final path; return False if the same content exists, which gets a new mtime."""
        path = self.get_path(sha256)
        try:
            os.utime(path)
            return False
        except FileNotFoundError:
            pass
        try:
            incoming.replace(path)
        except FileNotFoundError:  # the first file with this prefix
            path.parent.mkdir(exist_ok=True)
            sync_folder(self.root)
            incoming.replace(path)
        sync_folder(path.parent)
        return True


def original_path(root: Path, sha256: str) -> Path:
    return root / sha256[:2] / sha256


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wrap_os_error(error: OSError) -> StorageFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("The disk of the data folder is full", reason=str(error))
    return StorageFailed(f"Cannot store the file: {error.strerror or error}", reason=str(error))


async def read_pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(READ_CHUNK_BYTES):
            yield piece
