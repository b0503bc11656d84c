"""The pages in memory as passages, one a section, for a search by words."""

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
    """Follows the pages as they are read; the scan itself is made when the first question comes."""

    def __init__(self) -> None:
        self._scan: MemorySearch[tuple[str, int]] | None = None
        self._pages: dict[str, LayerPage] = {}
        self._lock = threading.Lock()

    def add_pages(self, pages: Iterable[LayerPage]) -> Iterator[LayerPage]:
        """Take in page by page what is new or has changed."""
        for page in pages:
            with self._lock:
                self._add_page(page)
            yield page

    def _add_page(self, page: LayerPage) -> None:
        if self._pages.get(page.path) is page:
            return
        self._remove_page(page.path)
        for order, section in enumerate(split_sections(page)):
            self.scan.put((page.path, order), f"{page.title}\n{page.summary}\n{section.text}")
        self._pages[page.path] = page

    def keep_only(self, paths: Iterable[str]) -> None:
        with self._lock:
            for path in self._pages.keys() - set(paths):
                self._remove_page(path)

    def search(self, question: str, layer: str = ALL_LAYERS) -> list[PageHit]:
        """The best section of each page that holds a word of the question."""
        found: dict[str, PageHit] = {}
        for (path, order), score in self.scan.search(question):
            page = self._pages.get(path)
            if page is None or path in found or layer not in (ALL_LAYERS, page.layer):
                continue
            section = split_sections(page)[order]
            found[path] = PageHit(page, section.heading, section.text, score)
        return list(found.values())

    def score_sections(self, question: str) -> dict[tuple[str, int], float]:
        return dict(self.scan.search(question))

    @property
    def scan(self) -> MemorySearch[tuple[str, int]]:
        if self._scan is None:
            from knowledge.toolsets.sage.memory_search import MemorySearch

            self._scan = MemorySearch()
        return self._scan

    def _remove_page(self, path: str) -> None:
        page = self._pages.pop(path, None)
        for order in range(len(split_sections(page)) if page else 0):
            self.scan.drop((path, order))


def make_snippet(text: str, question: str) -> str:
    """A few lines of a passage, from where the question's words stand."""
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
