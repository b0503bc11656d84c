"""The pages in memory as passages, one a section, for a search by words."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.toolsets.sage.library import ALL
from knowledge.toolsets.sage.page import Page, sections

if TYPE_CHECKING:
    from knowledge.toolsets.sage.memory_search import WordScan

SNIPPET = 320


@dataclass(frozen=True, slots=True)
class Found:
    page: Page
    section: str | None
    text: str
    score: float


class PageWords:
    """Follows the pages as they are read; the scan itself is made when the first question comes."""

    def __init__(self) -> None:
        self._scan: WordScan[tuple[str, int]] | None = None
        self._held: dict[str, Page] = {}
        self._lock = threading.Lock()

    def follow(self, pages: Iterable[Page]) -> Iterator[Page]:
        """Take in page by page what is new or has changed."""
        for page in pages:
            with self._lock:
                self._take(page)
            yield page

    def _take(self, page: Page) -> None:
        if self._held.get(page.path) is page:
            return
        self._forget(page.path)
        for order, section in enumerate(sections(page)):
            self.scan.put((page.path, order), f"{page.title}\n{page.summary}\n{section.text}")
        self._held[page.path] = page

    def keep_only(self, paths: Iterable[str]) -> None:
        with self._lock:
            for path in self._held.keys() - set(paths):
                self._forget(path)

    def search(self, question: str, layer: str = ALL) -> list[Found]:
        """The best section of each page that holds a word of the question."""
        found: dict[str, Found] = {}
        for (path, order), score in self.scan.search(question):
            page = self._held.get(path)
            if page is None or path in found or layer not in (ALL, page.layer):
                continue
            section = sections(page)[order]
            found[path] = Found(page, section.heading, section.text, score)
        return list(found.values())

    def relevances(self, question: str) -> dict[tuple[str, int], float]:
        return dict(self.scan.search(question))

    @property
    def scan(self) -> WordScan[tuple[str, int]]:
        if self._scan is None:
            from knowledge.toolsets.sage.memory_search import WordScan

            self._scan = WordScan()
        return self._scan

    def _forget(self, path: str) -> None:
        page = self._held.pop(path, None)
        for order in range(len(sections(page)) if page else 0):
            self.scan.drop((path, order))


def snippet(text: str, question: str) -> str:
    """A few lines of a passage, from where the question's words stand."""
    plain = " ".join(re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE).split()) or " ".join(text.split())
    if len(plain) <= SNIPPET:
        return plain
    lowered = plain.casefold()
    words = [word for word in re.split(r"\W+", question.casefold()) if len(word) > 2]
    places = [place for word in words if (place := lowered.find(word)) >= 0]
    start = max(min(places, default=0) - SNIPPET // 4, 0)
    start = plain.rfind(" ", 0, start) + 1 if start else 0
    end = start + SNIPPET
    end = len(plain) if end >= len(plain) else max(plain.rfind(" ", start, end), start + SNIPPET // 2)
    return ("…" if start else "") + plain[start:end] + ("…" if end < len(plain) else "")
