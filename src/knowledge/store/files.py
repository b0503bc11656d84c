"""Content-addressed storage of originals: the file name is the SHA-256 of the content."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
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
PREFIX_CHARS = 2
"""Length of the folder names below the folder of originals; others are not for originals."""


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


RunLocked = Callable[[str, Callable[[], int]], int]
"""Runs work on one original while no other server can; it may run the work again after a failure."""
SHARED_GRACE_SECONDS = 600.0
"""Age from which an unreferenced original in a folder that servers share counts as left behind by a crash; before, it
may belong to a request that another server has not committed yet."""
SHARED_INCOMING_SECONDS = 24 * 3600.0
"""Age from which an unfinished file in a folder that servers share counts as abandoned."""


class FileStore:
    """The folder of originals; a file is pinned until the row that references it is committed.

    Pins are per process. With `run_locked` other servers use the folder too, and may delete a file between the moment
    when it is put into place and the commit of its row. So the upload is kept until then, and put into place again
    under the lock under which others look for a row before they delete.
    """

    def __init__(self, root: Path, run_locked: RunLocked | None = None) -> None:
        self.root, self._run_locked = root, run_locked
        self._incoming = root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._pins: Counter[str] = Counter()
        self._holders = 0
        self._deferred: set[str] = set()
        self.on_discard: Callable[[str], None] = lambda _: None
        """Called after an original was deleted, to delete what was derived from it."""

    @property
    def grace_seconds(self) -> float:
        """Age up to which an unreferenced original may belong to a request in progress, here or on another server."""
        return 0.0 if self._run_locked is None else SHARED_GRACE_SECONDS

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
            if self._run_locked is None:
                moved = self._move_into_place(incoming.path, received.sha256)
            else:
                self._link_into_place(incoming.path, received.sha256)
            failpoints.trigger("files.placed")
            yield received
            written = True
            if self._run_locked is not None:
                self._run_locked(received.sha256, lambda: self._link_into_place(incoming.path, received.sha256))
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
        if self._run_locked is None:
            return self._delete_unreferenced(sha256, is_referenced)
        if is_referenced(sha256) or not self.get_path(sha256).exists():  # saves the lock
            return 0
        return self._run_locked(sha256, lambda: self._delete_unreferenced(sha256, is_referenced))

    def _delete_unreferenced(self, sha256: str, is_referenced: Callable[[str], bool]) -> int:
        with self._lock:
            path = self.get_path(sha256)
            if self._pins[sha256] or is_referenced(sha256) or not path.exists():
                return 0
            if self._holders:
                self._deferred.add(sha256)
                return 0
            size = path.stat().st_size
            path.unlink(missing_ok=True)
        self.on_discard(sha256)
        return size

    def sweep_unreferenced(self, is_referenced: Callable[[str], bool], older_than: float = 3600.0) -> int:
        """Delete unreferenced originals and abandoned uploads; return their number."""
        is_shared = self._run_locked is not None
        older_than = max(older_than, self.grace_seconds)
        horizon = time.time() - older_than
        abandoned = time.time() - (SHARED_INCOMING_SECONDS if is_shared else older_than)
        stray = [path for path in self._incoming.iterdir() if path.stat().st_mtime <= abandoned]
        for path in stray:
            path.unlink(missing_ok=True)
        old = [path for path in self.iter_files() if path.stat().st_mtime <= horizon]
        return len(stray) + sum(bool(self.discard(path.name, is_referenced)) for path in old)

    def iter_files(self) -> Iterator[Path]:
        for folder in sorted(self.root.iterdir()):
            if folder.is_dir() and len(folder.name) == PREFIX_CHARS:
                yield from sorted(folder.iterdir())

    def _link_into_place(self, incoming: Path, sha256: str) -> int:
        """Give an upload its final path too; the same content that is there already gets a new mtime."""
        path = self.get_path(sha256)
        try:
            os.utime(path)
            return 0
        except FileNotFoundError:
            path.parent.mkdir(exist_ok=True)
        try:
            os.link(incoming, path)
        except FileExistsError:  # of another server
            return 0
        except OSError:
            _copy_atomically(incoming, path)
        sync_folder(path.parent)
        return 1

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


def _copy_atomically(source: Path, target: Path) -> None:
    """Copy a file where the file system has no hard links."""
    draft = source.with_suffix(".copy")
    shutil.copyfile(source, draft)
    draft.replace(target)


def original_path(root: Path, sha256: str) -> Path:
    return root / sha256[:PREFIX_CHARS] / sha256


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wrap_os_error(error: OSError) -> StorageFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("The disk of the data folder is full", reason=str(error))
    return StorageFailed(f"Cannot store the file: {error.strerror or error}", reason=str(error))


async def read_pieces(path: Path, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
    """Yield the bytes from start to before stop, or to the end of the file."""
    with path.open("rb") as file:
        left = path.stat().st_size - start if stop is None else stop - start
        file.seek(start)
        while left > 0 and (piece := file.read(min(READ_CHUNK_BYTES, left))):
            left -= len(piece)
            yield piece
