"""The files to add: those that the arguments name, and those in folders that .gitignore does not leave out."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from knowledge.errors import FileNotFound
from knowledge.surfaces.cli.document_lookup import absolute_path

GLOB_CHARS = frozenset("*?[")

IGNORE_FILENAMES = (".gitignore", ".knowledgeignore")
"""In this order, so that the second has the last word."""
ALWAYS_IGNORED = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv"})
"""Folders of tools, not of people."""


@dataclass(slots=True)
class GatheredFiles:
    """The files in the order in which they were named, each once, and what was left out."""

    files: dict[str, Path] = field(default_factory=dict)
    unsupported: Counter[str] = field(default_factory=Counter)
    """How many files of each suffix are of a kind that is not read."""
    empty: int = 0
    missing: list[str] = field(default_factory=list)

    def add(self, path: Path) -> None:
        self.files.setdefault(absolute_path(path), path)

    def add_if_readable(self, path: Path) -> None:
        """A file that nobody named: taken if it can be read and is not empty."""
        from knowledge.extract.formats import is_supported

        if not is_supported(path.name):
            self.unsupported[path.suffix.lower() or "without a suffix"] += 1
        elif not path.stat().st_size:
            self.empty += 1
        else:
            self.add(path)


@dataclass(frozen=True, slots=True)
class FolderWalk:
    """How folders are gone through."""

    include_hidden: bool = False
    include_ignored: bool = False
    """Also what the ignore files leave out."""
    private: tuple[Path, ...] = ()
    """Never entered: the data folder."""

    def list_files(self, root: Path) -> Iterator[Path]:
        """The files below a folder that no rule leaves out, in order; links to folders are not followed."""
        root = Path(absolute_path(root))
        yield from self._walk_folder(root, IgnoreRules(root, None) if self.include_ignored else load_rules(root))

    def _walk_folder(self, folder: Path, rules: IgnoreRules) -> Iterator[Path]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (PermissionError, FileNotFoundError, NotADirectoryError):  # not ours, or gone since it was listed
            return
        for entry in entries:
            path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
            if self._is_excluded(entry.name, path) or rules.ignores(path, is_folder):
                continue
            if is_folder:
                yield from self._walk_folder(path, rules if self.include_ignored else rules.for_subfolder(path))
            elif entry.is_file():
                yield path

    def _is_excluded(self, name: str, path: Path) -> bool:
        return name in ALWAYS_IGNORED or (not self.include_hidden and name.startswith(".")) or path in self.private


def gather_files(targets: Sequence[str], walk: FolderWalk) -> GatheredFiles:
    """Files as they are, folders by what is in them, and patterns for shells that do not know them."""
    sources = GatheredFiles()
    for target in targets:
        path = Path(target).expanduser()
        if path.is_dir():
            add_folder(sources, path, walk)
        elif path.exists():
            sources.add(path)
        elif GLOB_CHARS & set(target):
            add_matches(sources, path, walk)
        else:
            sources.missing.append(target)
    return sources


def add_folder(sources: GatheredFiles, folder: Path, walk: FolderWalk) -> None:
    for path in walk.list_files(folder):
        sources.add_if_readable(path)


def add_matches(sources: GatheredFiles, pattern: Path, walk: FolderWalk) -> None:
    found = sorted(glob.glob(str(pattern), recursive=True))  # noqa: PTH207  (a Path needs a folder to begin with)
    if not found:
        raise FileNotFound(f"Nothing matches '{pattern}'", hint="Check the pattern.", file_path=str(pattern))
    for path in map(Path, found):
        if path.is_dir():
            add_folder(sources, path, walk)
        else:
            sources.add_if_readable(path)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one folder, and those of the folders above it."""

    folder: Path
    spec: pathspec.GitIgnoreSpec | None
    parent: IgnoreRules | None = None

    def ignores(self, path: Path, is_folder: bool) -> bool:
        """The nearest rule that says anything about the path decides."""
        if self.spec is not None:
            relative = path.relative_to(self.folder).as_posix() + ("/" if is_folder else "")
            verdict = self.spec.check_file(relative).include
            if verdict is not None:
                return verdict
        return self.parent.ignores(path, is_folder) if self.parent else False

    def for_subfolder(self, folder: Path) -> IgnoreRules:
        return IgnoreRules(folder, read_ignore_files(folder), self)


def load_rules(root: Path) -> IgnoreRules:
    """The rules that hold in a folder, beginning at the top of the repository that it lies in."""
    folders = [root]
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            folders = [folder, *(parent for parent in reversed(root.parents) if folder in parent.parents)]
            folders += [root] if folder != root else []
            break
    rules = IgnoreRules(folders[0], read_ignore_files(folders[0]))
    for folder in folders[1:]:
        if folder == root and rules.ignores(root, is_folder=True):  # whoever names a folder wants what is in it
            return IgnoreRules(root, read_ignore_files(root))
        rules = rules.for_subfolder(folder)
    return rules


def read_ignore_files(folder: Path) -> pathspec.GitIgnoreSpec | None:
    lines: list[str] = []
    for name in IGNORE_FILENAMES:
        try:
            lines += (folder / name).read_text("utf-8", errors="replace").splitlines()
        except OSError:  # most folders have none
            continue
    return pathspec.GitIgnoreSpec.from_lines(lines) if lines else None
