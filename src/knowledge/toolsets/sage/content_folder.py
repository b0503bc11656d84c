"""The Markdown files below one folder: found by walking it, never by joining what somebody wrote to a path."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import Damaged
from knowledge.store.open_beneath import open_beneath

log = logging.getLogger(__name__)

SUFFIXES = (".md", ".markdown")
LARGEST = 1 << 20
DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells a changed file from the one that was read."""

    modified_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_mtime_ns, found.st_size, found.st_ino)


class Disk:
    """Everything that touches the content folder; blocking."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def walk(self) -> Iterator[tuple[str, Stamp]]:
        """Each file by its path below the folder, with slashes."""
        yield from self._below(self.folder, "", 0)

    def read(self, path: str) -> bytes:
        """The bytes of a file that `walk` has named; OSError or Damaged when it cannot be had."""
        real, root = (self.folder / path).resolve(strict=True), self.folder.resolve()
        if not real.is_relative_to(root):
            raise FileNotFoundError(f"{path} leads out of the content folder")
        descriptor = open_beneath(root, real, lambda found: found.is_relative_to(root))
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(f"{path} is not a file")
            if found.st_size > LARGEST:
                raise Damaged(f"larger than {LARGEST >> 20} MiB", hint="Split the page.", size=found.st_size)
            return file.read(LARGEST)

    def _below(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Stamp]]:
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
                if depth < DEEPEST:
                    yield from self._below(folder / entry.name, f"{path}/", depth + 1)
            elif entry.name.lower().endswith(SUFFIXES) and (found := self._regular(entry)) is not None:
                yield path, Stamp.of(found)

    def _regular(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        """The facts of a file that really lies in the folder; links may lead about in it, but not out."""
        try:
            if entry.is_symlink() and not Path(entry.path).resolve(strict=True).is_relative_to(self.folder.resolve()):
                return None
            found = entry.stat()
        except OSError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None
