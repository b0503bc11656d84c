"""Selects the files to add: files, folders and patterns from the arguments, without those in .gitignore."""

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
"""Later files override earlier ones."""
ALWAYS_IGNORED = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv"})


@dataclass(slots=True)
class GatheredFiles:
    """The files to add in the order of the arguments, each once, and counts of the skipped ones."""

    files: dict[str, Path] = field(default_factory=dict)
    unsupported: Counter[str] = field(default_factory=Counter)
    """Number of skipped files by unsupported suffix."""
    empty: int = 0
    missing: list[str] = field(default_factory=list)

    def add(self, path: Path) -> None:
        self.files.setdefault(absolute_path(path), path)

    def add_if_readable(self, path: Path) -> None:
        """Add a file found in a folder if its format is supported and it is not empty."""
        from knowledge.extract.formats import is_supported

        if not is_supported(path.name):
            self.unsupported[path.suffix.lower() or "without a suffix"] += 1
        elif not path.stat().st_size:
            self.empty += 1
        else:
            self.add(path)


@dataclass(frozen=True, slots=True)
class FolderWalk:
    """Options for walking a folder."""

    include_hidden: bool = False
    include_ignored: bool = False
    """Whether to include files that the ignore files exclude."""
    private: tuple[Path, ...] = ()
    """Folders that are never entered, such as the data folder."""

    def list_files(self, root: Path) -> Iterator[Path]:
        """Yield the files below a folder in sorted order, without ignored ones and without following symlinks."""
        root = Path(absolute_path(root))
        yield from self._walk_folder(root, IgnoreRules(root, None) if self.include_ignored else load_rules(root))

    def _walk_folder(self, folder: Path, rules: IgnoreRules) -> Iterator[Path]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (PermissionError, FileNotFoundError, NotADirectoryError):  # not readable, or removed meanwhile
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
    """Collect the files of the arguments; expands patterns, because not every shell does."""
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
        raise FileNotFound(f"No file matches '{pattern}'", hint="Check the pattern.", file_path=str(pattern))
    for path in map(Path, found):
        if path.is_dir():
            add_folder(sources, path, walk)
        else:
            sources.add_if_readable(path)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The ignore rules of one folder and of its parents."""

    folder: Path
    spec: pathspec.GitIgnoreSpec | None
    parent: IgnoreRules | None = None

    def ignores(self, path: Path, is_folder: bool) -> bool:
        """Whether a path is ignored; the rules of the nearest folder take precedence."""
        if self.spec is not None:
            relative = path.relative_to(self.folder).as_posix() + ("/" if is_folder else "")
            verdict = self.spec.check_file(relative).include
            if verdict is not None:
                return verdict
        return self.parent.ignores(path, is_folder) if self.parent else False

    def for_subfolder(self, folder: Path) -> IgnoreRules:
        return IgnoreRules(folder, read_ignore_files(folder), self)


def load_rules(root: Path) -> IgnoreRules:
    """Load the ignore rules for a folder, from the root of its Git repository down."""
    folders = [root]
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            folders = [folder, *(parent for parent in reversed(root.parents) if folder in parent.parents)]
            folders += [root] if folder != root else []
            break
    rules = IgnoreRules(folders[0], read_ignore_files(folders[0]))
    for folder in folders[1:]:
        if folder == root and rules.ignores(root, is_folder=True):  # an ignored folder named on the command line
            return IgnoreRules(root, read_ignore_files(root))
        rules = rules.for_subfolder(folder)
    return rules


def read_ignore_files(folder: Path) -> pathspec.GitIgnoreSpec | None:
    lines: list[str] = []
    for name in IGNORE_FILENAMES:
        try:
            lines += (folder / name).read_text("utf-8", errors="replace").splitlines()
        except OSError:  # the folder has none
            continue
    return pathspec.GitIgnoreSpec.from_lines(lines) if lines else None
