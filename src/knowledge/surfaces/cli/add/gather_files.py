"""What is to be added: the files that the arguments name, and those in folders that can be read."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.errors import FileNotFound
from knowledge.surfaces.cli.add.gitignore import NEVER, Rules, rules_for
from knowledge.surfaces.cli.find_document import absolute

PATTERN = frozenset("*?[")


@dataclass(slots=True)
class Sources:
    """The files in the order in which they were named, each once, and what was left out."""

    files: dict[str, Path] = field(default_factory=dict)
    unsupported: Counter[str] = field(default_factory=Counter)
    """How many files of each suffix are of a kind that is not read."""
    empty: int = 0
    missing: list[str] = field(default_factory=list)

    def take(self, path: Path) -> None:
        self.files.setdefault(absolute(path), path)

    def consider(self, path: Path) -> None:
        """A file that nobody named: taken if it can be read and is not empty."""
        from knowledge.extract.formats import supported

        if not supported(path.name):
            self.unsupported[path.suffix.lower() or "without a suffix"] += 1
        elif not path.stat().st_size:
            self.empty += 1
        else:
            self.take(path)


@dataclass(frozen=True, slots=True)
class Walk:
    """How folders are gone through."""

    hidden: bool = False
    ignored: bool = False
    """Also what the ignore files leave out."""
    private: tuple[Path, ...] = ()
    """Never entered: the data folder."""

    def files(self, root: Path) -> Iterator[Path]:
        """The files below a folder that no rule leaves out, in order; links to folders are not followed."""
        root = Path(absolute(root))
        yield from self._below(root, Rules(root, None) if self.ignored else rules_for(root))

    def _below(self, folder: Path, rules: Rules) -> Iterator[Path]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (PermissionError, FileNotFoundError, NotADirectoryError):  # not ours, or gone since it was listed
            return
        for entry in entries:
            path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
            if self._left_out(entry.name, path) or rules.ignores(path, is_folder):
                continue
            if is_folder:
                yield from self._below(path, rules if self.ignored else rules.below(path))
            elif entry.is_file():
                yield path

    def _left_out(self, name: str, path: Path) -> bool:
        return name in NEVER or (not self.hidden and name.startswith(".")) or path in self.private


def gather(targets: Sequence[str], walk: Walk) -> Sources:
    """Files as they are, folders by what is in them, and patterns for shells that do not know them."""
    sources = Sources()
    for target in targets:
        path = Path(target).expanduser()
        if path.is_dir():
            take_folder(sources, path, walk)
        elif path.exists():
            sources.take(path)
        elif PATTERN & set(target):
            take_matches(sources, path, walk)
        else:
            sources.missing.append(target)
    return sources


def take_folder(sources: Sources, folder: Path, walk: Walk) -> None:
    for path in walk.files(folder):
        sources.consider(path)


def take_matches(sources: Sources, pattern: Path, walk: Walk) -> None:
    found = sorted(glob.glob(str(pattern), recursive=True))  # noqa: PTH207  (a Path needs a folder to begin with)
    if not found:
        raise FileNotFound(f"Nothing matches '{pattern}'", hint="Check the pattern.", file_path=str(pattern))
    for path in map(Path, found):
        if path.is_dir():
            take_folder(sources, path, walk)
        else:
            sources.consider(path)
