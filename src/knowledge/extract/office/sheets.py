"""Spreadsheets: each sheet a page, its rows a table in pieces that repeat the header; dates are dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from knowledge.extract import safe_xml
from knowledge.extract.archive import open_archive
from knowledge.extract.base import Extracted, PageText, Source
from knowledge.extract.office.facts import office_facts
from knowledge.extract.office.open import open_office
from knowledge.extract.office.xls_times import old_times, spoken
from knowledge.extract.office.xlsx_number_formats import WORKBOOK, as_shown
from knowledge.extract.tables import LARGEST, LEADING, header_place

CELL = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"^\|(?: --- \|)+$")
GAP = "|" + "  |" * 8
RESIDUES = ("0000000", "9999999")
RESIDUE = re.compile(rf"(?<=\| )-?\d+\.\d*(?:{'|'.join(RESIDUES)})\d+(?= \|)")
"""What is left in the last digits of a sum of fractions, such as 1.7000000000000002; Excel shows fifteen digits."""


@dataclass(slots=True)
class Sheet:
    name: str
    number: int
    lines: list[str] = field(default_factory=list)


def extract(source: Source, doc_type: str) -> Extracted:
    modern = doc_type == "xlsx"
    with open_office(as_shown(source) if modern else source, doc_type) as document:
        text = _rounded(document.to_markdown().replace("<br>", " "))
    names = _names(source) if modern else None
    sheets = split_sheets(text, names)
    for sheet, times in zip(sheets, () if modern else old_times(source), strict=False):
        sheet.lines = spoken(sheet.lines, times)
    return Extracted(office_facts(source, doc_type, len(names or sheets)), _pages(sheets))


def _rounded(text: str) -> str:
    if not any(residue in text for residue in RESIDUES):
        return text
    return RESIDUE.sub(lambda number: f"{float(number[0]):.15g}", text)


def _names(source: Source) -> list[str]:
    with open_archive(source) as archive:
        root = safe_xml.parse(safe_xml.member(archive, WORKBOOK))
    return [element.get("name", "") for element in root.iter() if safe_xml.local(element.tag) == "sheet"]


def split_sheets(text: str, names: list[str] | None) -> list[Sheet]:
    """A line that names a sheet opens it. Without a list of names every heading does; cells stand between bars.

    Sheets without cells are left out of the text, so their names are what counts the others.
    """
    sheets: list[Sheet] = []
    passed = 0
    for line in text.split("\n"):
        title = line[3:].replace("\\", "").strip() if line.startswith("## ") else None
        if title is not None and (names is None or title in names[passed:]):
            passed = names.index(title, passed) + 1 if names else passed + 1
            sheets.append(Sheet(title, passed))
        elif sheets:
            sheets[-1].lines.append(line)
        elif line.strip():
            passed = 1
            sheets.append(Sheet("Sheet 1", passed, [line]))
    return sheets


def _pages(sheets: list[Sheet]) -> Iterator[PageText]:
    for sheet in sheets:
        title = f"## {sheet.name}\n\n"
        for piece in _pieces(sheet.lines):
            yield PageText(title + piece, sheet.number)
            title = ""
        if title:
            yield PageText(title, sheet.number)
        sheet.lines.clear()


def _pieces(lines: list[str]) -> Iterator[str]:
    rows = _without_gaps([line for line in lines if line.strip() and not RULE.match(line)])
    place = header_place([sum(bool(cell.strip()) for cell in CELL.split(row)) for row in rows[:LEADING]])
    above = [_plain(row) for row in rows[:place]]
    gathered: list[str] = [*(line for line in above if line), ""] if any(above) else []
    size = 0
    header: list[str] = []
    for row in rows[place:]:
        if not row.startswith("|"):  # a chart, or a note below the cells
            gathered.append(row)
            header = []
        elif not header:
            header = [row, "|" + " --- |" * (len(CELL.split(row)) - 2)]
            gathered += header
        elif _plain(row):
            gathered.append(row)
        size += len(row)
        if size > LARGEST:
            yield "\n".join(gathered)
            gathered, size = list(header), 0
    if len(gathered) > len(header) or (gathered and size):
        yield "\n".join(gathered)


def _without_gaps(rows: list[str]) -> list[str]:
    """A cell far out makes every row as wide; columns in which nothing stands are left out then."""
    if not any(GAP in row for row in rows[:LEADING]):
        return rows
    cells = {place: CELL.split(row)[1:-1] for place, row in enumerate(rows) if row.startswith("|")}
    width = max((len(row) for row in cells.values()), default=0)
    used = [
        column for column in range(width) if any("".join(row[column : column + 1]).strip() for row in cells.values())
    ]
    return [
        "|" + "".join(f"{(cells[place] + [''] * width)[column]}|" for column in used) if place in cells else row
        for place, row in enumerate(rows)
    ]


def _plain(row: str) -> str:
    """What stands in a row, without its bars."""
    return " ".join(cell.strip() for cell in CELL.split(row) if cell.strip())
