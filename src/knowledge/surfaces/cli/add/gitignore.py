"""Which files of a folder are left out: what .gitignore and .knowledgeignore say, from the top down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pathspec

FILES = (".gitignore", ".knowledgeignore")
"""In this order, so that the second has the last word."""
NEVER = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv"})
"""Folders of tools, not of people."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one folder, and those of the folders above it."""

    folder: Path
    spec: pathspec.GitIgnoreSpec | None
    above: Rules | None = None

    def ignores(self, path: Path, is_folder: bool) -> bool:
        """The nearest rule that says anything about the path decides."""
        if self.spec is not None:
            relative = path.relative_to(self.folder).as_posix() + ("/" if is_folder else "")
            verdict = self.spec.check_file(relative).include
            if verdict is not None:
                return verdict
        return self.above.ignores(path, is_folder) if self.above else False

    def below(self, folder: Path) -> Rules:
        return Rules(folder, read_rules(folder), self)


def rules_for(root: Path) -> Rules:
    """The rules that hold in a folder, beginning at the top of the repository that it lies in."""
    folders = [root]
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            folders = [folder, *(parent for parent in reversed(root.parents) if folder in parent.parents)]
            folders += [root] if folder != root else []
            break
    rules = Rules(folders[0], read_rules(folders[0]))
    for folder in folders[1:]:
        if folder == root and rules.ignores(root, is_folder=True):  # whoever names a folder wants what is in it
            return Rules(root, read_rules(root))
        rules = rules.below(folder)
    return rules


def read_rules(folder: Path) -> pathspec.GitIgnoreSpec | None:
    lines: list[str] = []
    for name in FILES:
        try:
            lines += (folder / name).read_text("utf-8", errors="replace").splitlines()
        except OSError:  # most folders have none
            continue
    return pathspec.GitIgnoreSpec.from_lines(lines) if lines else None
