"""The cells of a line of a PDF page: words with wide gaps between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pypdfium2 as pdfium

WIDE = 0.75
"""A gap between two cells, in heights of the letters beside it."""
LONGEST_CELL = 24
"""Letters in a cell, on average; columns of prose have longer lines."""


@dataclass(frozen=True, slots=True)
class Cell:
    left: float
    right: float
    words: str


class Cells:
    """Asks an open page for the places of its letters, line by line."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        self._page = page

    def __call__(self, lines: Sequence[str]) -> list[list[Cell]]:
        """One list for each line; an empty one where the line cannot be found again."""
        textpage = self._page.get_textpage()
        try:
            return [self._cells(textpage, line.strip()) for line in lines]
        finally:
            textpage.close()

    def _cells(self, textpage: pdfium.PdfTextPage, line: str) -> list[Cell]:
        found = textpage.search(line, match_case=True).get_next() if line else None
        if found is None or found[1] != len(line):
            return []
        boxes = [textpage.get_charbox(found[0] + place) for place in range(len(line))]
        cells: list[Cell] = []
        start = 0
        for place in (place for place, letter in enumerate(line) if letter == " "):
            if 0 < place < len(line) - 1 and _is_wide(boxes[place - 1], boxes[place + 1]):
                cells.append(_cell(line, boxes, start, place))
                start = place + 1
        return [*cells, _cell(line, boxes, start, len(line))]


Box = tuple[float, float, float, float]


def _is_wide(before: Box, after: Box) -> bool:
    height = max(before[3] - before[1], after[3] - after[1])
    return after[0] - before[2] > WIDE * height


def _cell(line: str, boxes: list[Box], start: int, end: int) -> Cell:
    inside = boxes[start:end]
    return Cell(min(box[0] for box in inside), max(box[2] for box in inside), line[start:end].strip())


def table(lines: list[list[Cell]]) -> list[list[str]] | None:
    """Lines of cells as rows of one table, or None where they do not look like one."""
    if not all(lines):
        return None
    width, often = Counter(map(len, lines)).most_common(1)[0]
    cells = [cell for line in lines for cell in line]
    if width < 2 or 2 * often < len(lines) or sum(len(cell.words) for cell in cells) > LONGEST_CELL * len(cells):
        return None
    whole = [line for line in lines if len(line) == width]
    columns = [(min(cell.left for cell in part), max(cell.right for cell in part)) for part in zip(*whole, strict=True)]
    if any(right >= left for (_, right), (left, _) in pairwise(columns)):
        return None
    return [_row(line, columns) for line in lines]


def _row(line: list[Cell], columns: list[tuple[float, float]]) -> list[str]:
    row = [""] * len(columns)
    for cell in line:
        middle = (cell.left + cell.right) / 2
        place = min(range(len(columns)), key=lambda place: _distance(middle, columns[place]))
        row[place] = f"{row[place]} {cell.words}".strip()
    return row


def _distance(middle: float, column: tuple[float, float]) -> float:
    return max(column[0] - middle, middle - column[1], 0.0)
