"""The paragraphs, list items and table rows that an RTF file's words add up to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.extract import tables

NUMBER = re.compile(r"\(?([0-9a-zA-Z]{1,4})[.)]")
NO_OUTLINE = 9


class Paragraphs:
    def __init__(self) -> None:
        self.headings: dict[int, int] = {}
        """Which of the document's styles are headings, and of which level."""
        self._edges: dict[tuple[str, str], None] = {}
        """The headers and footers of the pages, each once."""
        self._blocks: list[str] = []
        self._text = ""
        self._mark = ""
        self._level = 0
        self._in_cell = False
        self._cells: list[str] = []
        self._rows: list[list[str]] = []

    def write(self, text: str) -> None:
        self._text += text

    def note(self, text: str) -> None:
        self._text += f" [{' '.join(text.split())}]" if text else ""

    def edge(self, name: str, text: str) -> None:
        if any(map(str.isalpha, text)):
            self._edges[name, " ".join(text.split())] = None

    def mark(self, text: str) -> None:
        """What stands before a list item: a bullet or a number."""
        found = NUMBER.match(text.strip())
        self._mark = f"{found[1]}. " if found else "- "

    def word(self, word: str, number: int | None) -> None:
        if word in ("par", "sect", "page"):
            self._paragraph()
        elif word == "pard":
            self._level, self._in_cell = 0, False
        elif word == "intbl":
            self._in_cell = True
        elif word == "s":
            self._level = self.headings.get(number or 0, 0)
        elif word == "outlinelevel" and number is not None and number < NO_OUTLINE:
            self._level = number + 1
        elif word in ("cell", "nestcell"):
            self._cells.append(self._taken())
        elif word == "row":
            self._rows.append(self._cells)
            self._cells = []

    def _taken(self) -> str:
        text, self._text = self._mark + self._text.strip(), ""
        self._mark = ""
        return text

    def _paragraph(self) -> None:
        if self._cells or self._in_cell:  # a paragraph that does not end its cell
            self._text += " "
            return
        text = self._taken()
        if not text.strip():
            return
        self._end_table()
        self._blocks.append(f"{'#' * min(6, self._level)} {' '.join(text.split())}" if self._level else text)

    def _end_table(self) -> None:
        if self._rows:
            self._blocks.append(tables.table(self._rows))
            self._rows = []

    def finished(self) -> Iterator[str]:
        self._cells, self._in_cell = [], False
        self._paragraph()
        self._end_table()
        yield from (text for name, text in self._edges if name == "header")
        yield from self._blocks
        yield from (text for name, text in self._edges if name == "footer")
