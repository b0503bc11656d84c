"""The Markdown files below one folder: found by walking it, never by joining what somebody wrote to a path."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import Damaged
from knowledge.filesystem.open_beneath import open_beneath

log = logging.getLogger(__name__)

PAGE_SUFFIXES = (".md", ".markdown")
MAX_PAGE_BYTES = 1 << 20
MAX_FOLDER_DEPTH = 12


@dataclass(frozen=True, slots=True)
class PageStamp:
    """What tells a changed file from the one that was read."""

    modified_ns: int
    size: int
    inode: int

    @classmethod
    def from_stat(cls, found: os.stat_result) -> PageStamp:
        return cls(found.st_mtime_ns, found.st_size, found.st_ino)


class ContentFolder:
    """Everything that touches the content folder; blocking."""

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def walk(self) -> Iterator[tuple[str, PageStamp]]:
        """Each file by its path below the folder, with slashes."""
        yield from self._walk_folder(self.path, "", 0)

    def read(self, path: str) -> bytes:
        """Reads only files that `walk` has listed; a link that leads out of the folder (path traversal) is refused."""
        real, root = (self.path / path).resolve(strict=True), self.path.resolve()
        if not real.is_relative_to(root):
            raise FileNotFoundError(f"{path} leads out of the content folder")
        descriptor = open_beneath(root, real, lambda found: found.is_relative_to(root))
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(f"{path} is not a file")
            if found.st_size > MAX_PAGE_BYTES:
                raise Damaged(f"larger than {MAX_PAGE_BYTES >> 20} MiB", hint="Split the page.", size=found.st_size)
            return file.read(MAX_PAGE_BYTES)

    def _walk_folder(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, PageStamp]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            if depth == 0:
                raise
            log.warning("the folder %s cannot be read: %s", folder, error.strerror)
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_FOLDER_DEPTH:
                    yield from self._walk_folder(folder / entry.name, f"{path}/", depth + 1)
            elif entry.name.lower().endswith(PAGE_SUFFIXES) and (found := self._stat_regular(entry)) is not None:
                yield path, PageStamp.from_stat(found)

    def _stat_regular(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        """The facts of a file that really lies in the folder; links may lead about in it, but not out."""
        try:
            if entry.is_symlink() and not Path(entry.path).resolve(strict=True).is_relative_to(self.path.resolve()):
                return None
            found = entry.stat()
        except OSError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None
