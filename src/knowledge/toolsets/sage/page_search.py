"""Keyword search over the sections of the cached pages."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.toolsets.sage.library import ALL_LAYERS
from knowledge.toolsets.sage.page import LayerPage, split_sections

if TYPE_CHECKING:
    from knowledge.toolsets.sage.memory_search import MemorySearch

SNIPPET_CHARS = 320


@dataclass(frozen=True, slots=True)
class PageHit:
    page: LayerPage
    section: str | None
    text: str
    score: float


class PageSearch:
    """In-memory index of the pages read so far, one entry per section."""

    def __init__(self) -> None:
        self._memory_search: MemorySearch[tuple[str, int]] | None = None
        self._pages: dict[str, LayerPage] = {}
        self._lock = threading.Lock()

    def add_pages(self, pages: Iterable[LayerPage]) -> Iterator[LayerPage]:
        """Index new and changed pages and yield every page."""
        for page in pages:
            with self._lock:
                self._add_page(page)
            yield page

    def _add_page(self, page: LayerPage) -> None:
        if self._pages.get(page.path) is page:
            return
        self._remove_page(page.path)
        for order, section in enumerate(split_sections(page)):
            self.memory_search.put((page.path, order), f"{page.title}\n{page.summary}\n{section.text}")
        self._pages[page.path] = page

    def keep_only(self, paths: Iterable[str]) -> None:
        with self._lock:
            for path in self._pages.keys() - set(paths):
                self._remove_page(path)

    def search(self, question: str, layer: str = ALL_LAYERS) -> list[PageHit]:
        """Return the best matching section of each page, best first."""
        found: dict[str, PageHit] = {}
        for (path, order), score in self.memory_search.search(question):
            page = self._pages.get(path)
            if page is None or path in found or layer not in (ALL_LAYERS, page.layer):
                continue
            section = split_sections(page)[order]
            found[path] = PageHit(page, section.heading, section.text, score)
        return list(found.values())

    def score_sections(self, question: str) -> dict[tuple[str, int], float]:
        return dict(self.memory_search.search(question))

    @property
    def memory_search(self) -> MemorySearch[tuple[str, int]]:
        if self._memory_search is None:
            from knowledge.toolsets.sage.memory_search import MemorySearch

            self._memory_search = MemorySearch()
        return self._memory_search

    def _remove_page(self, path: str) -> None:
        page = self._pages.pop(path, None)
        for order in range(len(split_sections(page)) if page else 0):
            self.memory_search.remove((path, order))


def make_snippet(text: str, question: str) -> str:
    """Return an excerpt of at most SNIPPET_CHARS around the first query word."""
    plain = " ".join(re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE).split()) or " ".join(text.split())
    if len(plain) <= SNIPPET_CHARS:
        return plain
    lowered = plain.casefold()
    words = [word for word in re.split(r"\W+", question.casefold()) if len(word) > 2]
    places = [place for word in words if (place := lowered.find(word)) >= 0]
    start = max(min(places, default=0) - SNIPPET_CHARS // 4, 0)
    start = plain.rfind(" ", 0, start) + 1 if start else 0
    end = start + SNIPPET_CHARS
    end = len(plain) if end >= len(plain) else max(plain.rfind(" ", start, end), start + SNIPPET_CHARS // 2)
    return ("…" if start else "") + plain[start:end] + ("…" if end < len(plain) else "")
