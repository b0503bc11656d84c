"""The outline (bookmarks) of a PDF, whose entries become headings on their pages."""

from __future__ import annotations

from collections import defaultdict

import pypdfium2 as pdfium

from knowledge.extract.pdf.repairs.titles import HEADING, normalise_title, read_bookmark_title, split_merged_title

MAX_ENTRIES = 5_000
MAX_HEADING_LEVEL = 6


class PdfOutline:
    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._entries: dict[int, list[tuple[int, str]]] = defaultdict(list)
        try:
            for _, bookmark in zip(range(MAX_ENTRIES), document.get_toc(max_depth=MAX_HEADING_LEVEL), strict=False):
                self._add_bookmark(bookmark)
        except pdfium.PdfiumError:
            pass  # the text can be read without a damaged outline

    def _add_bookmark(self, bookmark: pdfium.PdfBookmark) -> None:
        destination = bookmark.get_dest()
        index = destination.get_index() if destination is not None else None
        title = read_bookmark_title(bookmark)
        if index is not None and title:
            self._entries[index].append((min(MAX_HEADING_LEVEL, bookmark.level + 1), title))

    def apply_headings(self, index: int, text: str) -> str:
        """Return the text of a page with its entries as headings; entries not found in it are put above the text."""
        if index not in self._entries:
            return text
        lines, missing, after = text.split("\n"), [], 0
        titles = [normalise_title(title) for _, title in self._entries[index]]
        for level, title in self._entries[index]:
            place = _find_title_line(lines, title, after)
            if place is None:
                place = split_merged_title(lines, title, titles)
            if place is None:
                missing.append(f"{'#' * level} {title}")
            else:
                lines[place] = f"{'#' * level} {HEADING.sub('', lines[place]).strip().strip('*')}"
                after = place + 1
        return "\n\n".join([*missing, "\n".join(lines)])


def _find_title_line(lines: list[str], title: str, after: int) -> int | None:
    """Find the line of a title: of several the first after the previous entry, because titles can repeat."""
    wanted = normalise_title(title)
    if not wanted:
        return None
    places = [place for place, line in enumerate(lines) if normalise_title(HEADING.sub("", line)) == wanted]
    behind = [place for place in places if place >= after] or places
    large = (place for place in behind if HEADING.match(lines[place]))  # not the line in a table of contents
    return next(large, behind[0] if behind else None)
