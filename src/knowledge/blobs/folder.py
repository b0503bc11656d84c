"""Originals in a folder, content-addressed: the file name is the SHA-256 of the content."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from knowledge import failpoints
from knowledge.blobs.api import IsReferenced, RunLocked, StoredBlob
from knowledge.blobs.incoming import IncomingFile, ReceivedFile, wrap_os_error
from knowledge.errors import StorageFailed
from knowledge.filesystem.fsync import sync_folder

READ_CHUNK_BYTES = 1 << 20
PREFIX_CHARS = 2
"""Length of the folder names below the folder of originals; others are not for originals."""
MARKER_PREFIX = "originals-"
"""Beginning of the name of an empty folder in the folder of originals; the rest is the id that the database knows."""


SHARED_GRACE_SECONDS = 600.0
"""Age from which an unreferenced original in a folder that servers share counts as left behind by a crash; before, it
may belong to a request that another server has not committed yet."""
SHARED_INCOMING_SECONDS = 24 * 3600.0
"""Age from which an unfinished file in a folder that servers share counts as abandoned."""


class FolderBlobs:
    """The folder of originals; a file is pinned until the row that references it is committed.

    Pins are per process. With `run_locked` other servers use the folder too, and may delete a file between the moment
    when it is put into place and the commit of its row. So the upload is kept until then, and put into place again
    under the lock under which others look for a row before they delete.
    """

    def __init__(
        self, root: Path, run_locked: RunLocked | None = None, is_held: Callable[[], bool] = lambda: False
    ) -> None:
        self.root, self._run_locked = root, run_locked
        self._is_held = is_held
        """Whether a server makes a backup and needs originals that lose their rows meanwhile; a sweep deletes them."""
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

    @property
    def location(self) -> str:
        return str(self.root)

    @contextmanager
    def hold_deletions(self, is_referenced: IsReferenced) -> Iterator[None]:
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

    def find_size(self, sha256: str) -> int | None:
        try:
            return self.get_path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    def is_known_missing(self, sha256: str) -> bool:
        return not self.get_path(sha256).exists()

    @contextmanager
    def open_local(self, sha256: str) -> Iterator[Path]:
        path = self.get_path(sha256)
        if not path.exists():
            raise FileNotFoundError(str(path))
        yield path

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        with self.get_path(sha256).open("rb") as file:
            left = os.fstat(file.fileno()).st_size - start if stop is None else stop - start
            file.seek(start)
            while left > 0 and (piece := file.read(min(READ_CHUNK_BYTES, left))):
                left -= len(piece)
                yield piece

    def iterate(self) -> Iterator[StoredBlob]:
        for path in self.iter_files():
            try:
                status = path.stat()
            except FileNotFoundError:  # deleted meanwhile
                continue
            yield StoredBlob(path.name, status.st_size, status.st_mtime)

    def find_issue(self) -> str | None:
        try:
            os.scandir(self.root).close()
        except OSError as error:
            return f"Storage directory not accessible: {error.strerror}"
        return None if os.access(self.root, os.W_OK) else "Storage directory not writable"

    def find_or_make_marker(self) -> str:
        """Return the id; two servers that start at the same time may make two, and the database keeps one."""
        try:
            found = [path for path in self.root.glob(f"{MARKER_PREFIX}*") if path.is_dir()]
            if found:
                return min(path.name.removeprefix(MARKER_PREFIX) for path in found)
            made = uuid.uuid4().hex
            (self.root / f"{MARKER_PREFIX}{made}").mkdir(mode=0o700)
        except OSError as error:
            raise StorageFailed(
                f"The folder of originals {self.root} cannot be written: {error.strerror or error}"
            ) from error
        return made

    def has_marker(self, marker: str) -> bool:
        return (self.root / f"{MARKER_PREFIX}{marker}").is_dir()

    def open_incoming(self, limit: int) -> IncomingFile:
        try:
            return IncomingFile(self._incoming / secrets.token_hex(16), limit)
        except OSError as error:
            raise wrap_os_error(error) from error

    @contextmanager
    def adopt_incoming(self, incoming: IncomingFile, is_referenced: IsReferenced) -> Iterator[ReceivedFile]:
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

    def discard(self, sha256: str, is_referenced: IsReferenced) -> int:
        """Delete an unreferenced original and return the bytes freed."""
        if self._run_locked is None:
            return self._delete_unreferenced(sha256, is_referenced)
        if is_referenced(sha256) or not self.get_path(sha256).exists() or self._is_held():  # saves the lock
            return 0
        return self._run_locked(sha256, lambda: self._delete_unreferenced(sha256, is_referenced))

    def _delete_unreferenced(self, sha256: str, is_referenced: IsReferenced) -> int:
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

    def sweep_unreferenced(self, is_referenced: IsReferenced, older_than: float = 3600.0) -> int:
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

    def forget_copies(self, is_referenced: IsReferenced) -> None:
        """Do nothing: the folder has the originals themselves."""

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
