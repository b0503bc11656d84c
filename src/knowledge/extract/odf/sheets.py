"""The sheets of an OpenDocument spreadsheet; dates as dates, runs of equal cells as often as they are meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from knowledge.extract import tables
from knowledge.extract.base import PageText
from knowledge.extract.odf.text import COMMENT, attribute, blocks
from knowledge.extract.safe_xml import local

MOST_COLUMNS, MOST_REPEATS = 1000, 100
REFERENCE = re.compile(r"\[\.?([^\]]*+)(\]|\Z)")
"""A cell in a formula, as in `of:=[.B2]*2`; or a bracket that nothing closes, with the rest of the formula."""
VALUES = ("value", "string-value", "boolean-value", "time-value")


def pages(sheets: list[Element]) -> Iterator[PageText]:
    for number, sheet in enumerate(sheets, start=1):
        title = f"## {attribute(sheet, 'name') or f'Sheet {number}'}\n\n"
        above, rows = tables.headed(_rows(sheet))
        title += above
        for piece in tables.pieces(rows):
            yield PageText(title + piece, number)
            title = ""
        if title:
            yield PageText(title, number)


def _rows(sheet: Element) -> Iterator[list[str]]:
    for row in sheet.iter():
        if local(row.tag) == "table-row":
            cells = _cells(row)
            for _ in range(_repeats(row, "number-rows-repeated") if cells else 0):
                yield cells


def _cells(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if local(cell.tag) in ("table-cell", "covered-table-cell") and len(cells) < MOST_COLUMNS:
            value = _value(cell)
            cells += [value] * _repeats(cell, "number-columns-repeated")
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _value(cell: Element) -> str:
    date = attribute(cell, "date-value")
    if date:
        return date.replace("T", " ")
    in_order = sorted(blocks(cell), key=lambda block: block.startswith(COMMENT))  # which stands before the value there
    return " ".join(" ".join(in_order).split()) or _unwritten(cell)


def _unwritten(cell: Element) -> str:
    """The value where no words show it, or what was to be calculated where no program has done so yet."""
    if attribute(cell, "value-type"):
        return next((value for name in VALUES if (value := attribute(cell, name))), "")
    _, sign, words = (attribute(cell, "formula") or "").partition("=")
    return sign + REFERENCE.sub(lambda found: found[1].replace(":.", ":") if found[2] else found[0], words)


def _repeats(element: Element, name: str) -> int:
    count = attribute(element, name) or "1"
    return min(MOST_REPEATS, int(count)) if count.isdigit() else 1
