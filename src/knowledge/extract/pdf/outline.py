"""The outline of a PDF, so that its entries become headings where they stand on their pages."""

from __future__ import annotations

import re
from collections import defaultdict

import pypdfium2 as pdfium

MAX_ENTRIES = 5_000
NUMBERING = re.compile(r"[\s\d.:§)(-]++|(?:[IVXLC]+|[A-Z])[.)]\s++")
TRAILING_MARKS = re.compile(r"[\s.:]++")
"""What a title ends with, seen from its end."""
HEADING = re.compile(r"^#{1,6}\s+")
MAX_EXTRA_LETTERS = 80
"""Letters that a heading may have more than its entry."""


class PdfOutline:
    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._entries: dict[int, list[tuple[int, str]]] = defaultdict(list)
        try:
            for _, bookmark in zip(range(MAX_ENTRIES), document.get_toc(max_depth=6), strict=False):
                self._add_bookmark(bookmark)
        except (pdfium.PdfiumError, UnicodeDecodeError):
            pass  # a broken outline is no outline; the text is not touched by it

    def _add_bookmark(self, bookmark: pdfium.PdfBookmark) -> None:
        destination = bookmark.get_dest()
        index = destination.get_index() if destination is not None else None
        title = " ".join(bookmark.get_title().split())
        if index is not None and title:
            self._entries[index].append((min(6, bookmark.level + 1), title))

    def apply_headings(self, index: int, text: str) -> str:
        """The text of a page with its entries as headings; one that is nowhere on the page is set above it."""
        if index not in self._entries:
            return text
        lines, missing, after = text.split("\n"), [], 0
        titles = [_normalise_title(title) for _, title in self._entries[index]]
        for level, title in self._entries[index]:
            place = _find_title_line(lines, title, after)
            if place is None:
                place = _split_title_line(lines, title, titles)
            if place is None:
                missing.append(f"{'#' * level} {title}")
            else:
                lines[place] = f"{'#' * level} {HEADING.sub('', lines[place]).strip().strip('*')}"
                after = place + 1
        return "\n\n".join([*missing, "\n".join(lines)])


def _find_title_line(lines: list[str], title: str, after: int) -> int | None:
    """The line that is the title; of several the first behind the entry before, for chapters may be called alike."""
    wanted = _normalise_title(title)
    if not wanted:
        return None
    places = [place for place, line in enumerate(lines) if _normalise_title(HEADING.sub("", line)) == wanted]
    behind = [place for place in places if place >= after] or places
    large = (place for place in behind if HEADING.match(lines[place]))  # not the line in a table of contents
    return next(large, behind[0] if behind else None)


def _split_title_line(lines: list[str], title: str, titles: list[str]) -> int | None:
    """The same in a line that has run into what follows it, which gets a line of its own."""
    start = re.compile(rf"(?i)[\s\d.:§)(-]*{re.escape(_normalise_title(title))}[.:]?\s+(?-i:(?=[^\W\d_a-zß-ÿ]))")
    for place, line in enumerate(lines):
        words = HEADING.sub("", line).replace("*", "")
        if line.startswith("|") or not (found := start.match(words)):
            continue
        rest = words[found.end() :]
        if words == line or len(rest) > MAX_EXTRA_LETTERS or _normalise_title(rest).startswith(tuple(titles)):
            lines[place : place + 1] = [found[0].strip(), "", rest]
            return place
    return None


def _normalise_title(line: str) -> str:
    """A line without its number, its emphasis and its case."""
    words = line.replace("*", "")
    numbering = NUMBERING.match(words)
    words = words[numbering.end() :] if numbering else words
    trailing = TRAILING_MARKS.match(words[::-1])
    return words[: len(words) - (trailing.end() if trailing else 0)].strip().casefold()
