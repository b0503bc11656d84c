"""List and read the Markdown files below the content folder, protected against path traversal."""

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
    """Modification time, size and inode of a file, for change detection."""

    modified_ns: int
    size: int
    inode: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> PageStamp:
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)


class ContentFolder:
    """Blocking file access to the content folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def walk(self) -> Iterator[tuple[str, PageStamp]]:
        """Yield each page by its relative POSIX path, sorted by name."""
        yield from self._walk_folder(self.path, "", 0)

    def read(self, path: str) -> bytes:
        """Read a page listed by `walk`; symbolic links that leave the folder are rejected."""
        real, root = (self.path / path).resolve(strict=True), self.path.resolve()
        if not real.is_relative_to(root):
            raise FileNotFoundError(f"{path} is outside the content folder")
        descriptor = open_beneath(root, real, lambda found: found.is_relative_to(root))
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(f"{path} is not a regular file")
            if found.st_size > MAX_PAGE_BYTES:
                raise Damaged(
                    f"larger than {MAX_PAGE_BYTES >> 20} MiB",
                    hint="Split the page into smaller files.",
                    size=found.st_size,
                )
            return file.read(MAX_PAGE_BYTES)

    def _walk_folder(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, PageStamp]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            if depth == 0:
                raise
            log.warning("cannot read folder %s: %s", folder, error.strerror)
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
        """Return the status of a regular file, or None for other types and links that leave the folder."""
        try:
            if entry.is_symlink() and not Path(entry.path).resolve(strict=True).is_relative_to(self.path.resolve()):
                return None
            found = entry.stat()
        except OSError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None
