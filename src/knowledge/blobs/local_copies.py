"""Local copies of originals that are stored elsewhere, for parsers; the least recently used are deleted first."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from knowledge.blobs.incoming import wrap_os_error
from knowledge.filesystem import file_modes

DRAFT_PREFIX = "draft-"
LOCK_COUNT = 64


class LocalCopies:
    """Files named by SHA-256 in a folder of one process; a file that is in use is never deleted."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self._root, self._max_bytes = root, max_bytes
        self._lock = threading.Lock()
        self._downloads = [threading.Lock() for _ in range(LOCK_COUNT)]
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._pins: Counter[str] = Counter()
        self._unwanted: set[str] = set()
        file_modes.make_folder(root)
        self._load()

    def _load(self) -> None:
        found = []
        for path in self._root.iterdir():
            if path.name.startswith(DRAFT_PREFIX):  # left behind by a crash
                path.unlink(missing_ok=True)
            else:
                found.append((path.stat().st_mtime_ns, path.name, path.stat().st_size))
        for _, sha256, size in sorted(found):
            self._sizes[sha256] = size
        with self._lock:
            self._evict()

    def adopt(self, sha256: str, path: Path) -> None:
        """Move a file with this content here."""
        try:
            size = path.stat().st_size
            path.replace(self._root / sha256)
        except OSError as error:
            raise wrap_os_error(error) from error
        with self._lock:
            self._add(sha256, size)

    @contextmanager
    def pin(self, sha256: str) -> Iterator[Path | None]:
        """Yield the copy, which is kept until the block ends; None if there is none."""
        with self._lock:
            path = self._take(sha256)
        try:
            yield path
        finally:
            if path is not None:
                self._release(sha256)

    @contextmanager
    def open(self, sha256: str, download: Callable[[Path], None]) -> Iterator[Path]:
        """Yield the copy, downloaded if there is none; the same original is downloaded once at a time."""
        with self._downloads[int(sha256[:8], 16) % LOCK_COUNT]:
            with self._lock:
                path = self._take(sha256)
            if path is None:
                self._download(sha256, download)
                with self._lock:
                    self._pins[sha256] += 1
                    path = self._root / sha256
                    self._add(sha256, path.stat().st_size)
        try:
            yield path
        finally:
            self._release(sha256)

    def _download(self, sha256: str, download: Callable[[Path], None]) -> None:
        draft = self._root / f"{DRAFT_PREFIX}{secrets.token_hex(8)}"
        try:
            download(draft)
            draft.replace(self._root / sha256)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise wrap_os_error(error) from error
        finally:
            draft.unlink(missing_ok=True)

    def forget(self, sha256: str) -> None:
        """Delete a copy, at the latest when it is no longer in use."""
        with self._lock:
            if self._pins[sha256]:
                self._unwanted.add(sha256)
            else:
                self._delete(sha256)

    def list_all(self) -> list[str]:
        with self._lock:
            return [*self._sizes]

    def _take(self, sha256: str) -> Path | None:
        if sha256 not in self._sizes or not (self._root / sha256).exists():
            return None
        self._sizes.move_to_end(sha256)
        self._pins[sha256] += 1
        return self._root / sha256

    def _release(self, sha256: str) -> None:
        with self._lock:
            self._pins[sha256] -= 1
            if self._pins[sha256]:
                return
            del self._pins[sha256]
            if sha256 in self._unwanted:
                self._delete(sha256)
            self._evict()

    def _add(self, sha256: str, size: int) -> None:
        self._unwanted.discard(sha256)
        self._sizes[sha256] = size
        self._sizes.move_to_end(sha256)
        self._evict()

    def _evict(self) -> None:
        total = sum(self._sizes.values())
        for sha256 in [sha256 for sha256 in self._sizes if not self._pins[sha256]] if total > self._max_bytes else ():
            total -= self._sizes[sha256]
            self._delete(sha256)
            if total <= self._max_bytes:
                return

    def _delete(self, sha256: str) -> None:
        self._unwanted.discard(sha256)
        self._sizes.pop(sha256, None)
        with contextlib.suppress(OSError):
            (self._root / sha256).unlink()
