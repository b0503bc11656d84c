"""A content folder for tests, a slow variant of it, and the service over them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

from knowledge.toolsets.sage.content_folder import ContentFolder, PageStamp
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.sage.token_budget import CountTokens

PAGES = {
    "core/principles.md": "# Core Principles\n\nUnderstand first.\n\n## Prove it\n\nA claim needs a test.\n",
    "core/defaults.md": "# Defaults\n\nEvery wait has an end.\n",
    "guidelines/python.md": "---\nlanguages: [python]\n---\n# Python\n\nUse type hints in every function.\n",
    "frameworks/resilience/timeout_patterns.md": "# Timeout Patterns\n\nPass the deadline on to whoever you call.\n",
    "practices/engineering.md": "# Engineering\n\nSmall steps, integrated daily.\n",
}


def write_pages(folder: Path, pages: dict[str, str] | None = None) -> Path:
    for path, text in (PAGES if pages is None else pages).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


class SlowContentFolder(ContentFolder):
    """A content folder that delays walks and the reads of all files not listed as quick."""

    made: ClassVar[list[SlowContentFolder]] = []

    def __init__(self, folder: Path, seconds: float, *, walk_seconds: float = 0.0, quick: tuple[str, ...] = ()) -> None:
        super().__init__(folder)
        self._seconds, self._walk_seconds, self._quick = seconds, walk_seconds, quick
        self._released = threading.Event()
        self.made.append(self)
        self.reads: list[str] = []

    @classmethod
    def release_all(cls) -> None:
        """Let all delayed reads return."""
        while cls.made:
            cls.made.pop()._released.set()

    def walk(self) -> Iterator[tuple[str, PageStamp]]:
        self._released.wait(self._walk_seconds)
        yield from super().walk()

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        if path not in self._quick:
            self._released.wait(self._seconds)
        return super().read(path)


async def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Poll a condition until it is true."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


def make_word_counter() -> CountTokens:
    """Return a tokenizer that counts words."""
    return lambda text: len(text.split())


def make_sage(folder: ContentFolder, ceiling_ms: int | None = None) -> SageService:
    return SageService(Library(folder), make_word_counter, ceiling_ms=ceiling_ms)
