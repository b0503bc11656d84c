"""Cache of drawn pages on disk, by the SHA-256 of the original, page and width; the least recently used go first.

A file is written under another name and renamed, so that a crash leaves no half picture. `forget` deletes all pages
of an original: docs/decisions/0026-drawn-pages.md.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from knowledge.filesystem import file_modes

log = logging.getLogger(__name__)

SUFFIX = ".webp"


class PageCache:
    def __init__(self, root: Path, max_bytes: int) -> None:
        self._root, self._max_bytes = root, max_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[tuple[str, str], int] = OrderedDict()
        """Bytes by original and file name, the least recently used first."""
        self._total = 0
        file_modes.make_folder(root)
        self._load()

    def _load(self) -> None:
        found = []
        for path in self._root.glob("*/*"):
            with contextlib.suppress(OSError):
                if path.suffix == SUFFIX:
                    status = path.stat()
                    found.append((status.st_mtime_ns, path.parent.name, path.stem, status.st_size))
                else:
                    path.unlink()  # left behind by a crash
        for _, sha256, name, size in sorted(found):
            self._sizes[sha256, name] = size
            self._total += size
        with self._lock:
            self._evict()

    def get(self, sha256: str, name: str) -> bytes | None:
        path = self._get_path(sha256, name)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        with self._lock:
            if (sha256, name) in self._sizes:
                self._sizes.move_to_end((sha256, name))
        return data

    def put(self, sha256: str, name: str, data: bytes, is_wanted: Callable[[], bool]) -> None:
        """Store a page unless its original was deleted meanwhile; a disk that fails only costs the cached page."""
        if len(data) > self._max_bytes:
            return
        path = self._get_path(sha256, name)
        draft = path.with_name(f".{secrets.token_hex(8)}")
        try:
            file_modes.make_folder(path.parent)
            with file_modes.open_new_file(draft) as file:
                file.write(data)
            draft.replace(path)
        except OSError as error:
            log.warning("a drawn page could not be cached: %s", error.strerror or error)
            draft.unlink(missing_ok=True)
            return
        with self._lock:
            self._total += len(data) - self._sizes.pop((sha256, name), 0)
            self._sizes[sha256, name] = len(data)
            self._evict()
        if not is_wanted():
            self.forget(sha256)

    def forget(self, sha256: str) -> None:
        """Delete all pages of an original."""
        if not (self._root / sha256).exists():
            return
        with self._lock:
            for key in [key for key in self._sizes if key[0] == sha256]:
                self._total -= self._sizes.pop(key)
            shutil.rmtree(self._root / sha256, ignore_errors=True)

    def sweep(self, is_wanted: Callable[[str], bool]) -> None:
        """Delete the pages of originals that are gone, such as after a crash between the two deletions."""
        for folder in self._root.iterdir():
            if not is_wanted(folder.name):
                self.forget(folder.name)

    @property
    def total_bytes(self) -> int:
        return self._total

    def _evict(self) -> None:
        while self._total > self._max_bytes and self._sizes:
            (sha256, name), size = self._sizes.popitem(last=False)
            self._total -= size
            path = self._get_path(sha256, name)
            with contextlib.suppress(OSError):
                path.unlink()
                path.parent.rmdir()  # fails while it has other pages

    def _get_path(self, sha256: str, name: str) -> Path:
        return self._root / sha256 / f"{name}{SUFFIX}"
