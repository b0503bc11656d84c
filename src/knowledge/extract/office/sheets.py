"""Excel workbooks (XLSX, XLS): one page per sheet, its rows as Markdown tables that each repeat the header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from knowledge.extract import safe_xml
from knowledge.extract.base import Extraction, PageText, Source
from knowledge.extract.markdown_tables import MAX_ROWS_ABOVE_HEADER, MAX_TABLE_CHARS, find_header_row
from knowledge.extract.office.document import open_office_document, read_office_facts
from knowledge.extract.office.repairs import workbooks
from knowledge.extract.zip_archive import open_archive

CELL_BORDER = re.compile(r"(?<!\\)\|")
HEADER_RULE = re.compile(r"^\|(?: --- \|)+$")
WIDE_GAP = "|" + "  |" * 8


@dataclass(slots=True)
class Sheet:
    name: str
    number: int
    lines: list[str] = field(default_factory=list)


def extract(source: Source, doc_type: str) -> Extraction:
    modern = doc_type == "xlsx"
    with open_office_document(workbooks.repair_xlsx(source) if modern else source, doc_type) as document:
        text = workbooks.round_residues(document.to_markdown().replace("<br>", " "))
    names = _read_sheet_names(source) if modern else None
    sheets = split_sheets(text, names)
    for sheet, times in zip(sheets, () if modern else workbooks.read_xls_times(source), strict=False):
        sheet.lines = workbooks.replace_times(sheet.lines, times)
    return Extraction(read_office_facts(source, doc_type, len(names or sheets)), _render_pages(sheets))


def _read_sheet_names(source: Source) -> list[str]:
    with open_archive(source) as archive:
        root = safe_xml.parse_xml(safe_xml.read_member(archive, workbooks.WORKBOOK))
    return [element.get("name", "") for element in root.iter() if safe_xml.local_name(element.tag) == "sheet"]


def split_sheets(text: str, names: list[str] | None) -> list[Sheet]:
    """Split office-oxide's Markdown at the headings that name a sheet, or at every heading if names is None."""
    # office-oxide leaves out empty sheets, so the number of a sheet is its position in the list of names.
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


def _render_pages(sheets: list[Sheet]) -> Iterator[PageText]:
    for sheet in sheets:
        title = f"## {sheet.name}\n\n"
        for piece in _split_rows(sheet.lines):
            yield PageText(title + piece, sheet.number)
            title = ""
        if title:
            yield PageText(title, sheet.number)
        sheet.lines.clear()


def _split_rows(lines: list[str]) -> Iterator[str]:
    rows = _drop_empty_columns([line for line in lines if line.strip() and not HEADER_RULE.match(line)])
    place = find_header_row(
        [sum(bool(cell.strip()) for cell in CELL_BORDER.split(row)) for row in rows[:MAX_ROWS_ABOVE_HEADER]]
    )
    above = [_join_cells(row) for row in rows[:place]]
    gathered: list[str] = [*(line for line in above if line), ""] if any(above) else []
    size = 0
    header: list[str] = []
    for row in rows[place:]:
        if not row.startswith("|"):  # a chart or a comment below the cells
            gathered.append(row)
            header = []
        elif not header:
            header = [row, "|" + " --- |" * (len(CELL_BORDER.split(row)) - 2)]
            gathered += header
        elif _join_cells(row):
            gathered.append(row)
        size += len(row)
        if size > MAX_TABLE_CHARS:
            yield "\n".join(gathered)
            gathered, size = list(header), 0
    if len(gathered) > len(header) or (gathered and size):
        yield "\n".join(gathered)


def _drop_empty_columns(rows: list[str]) -> list[str]:
    """Drop the empty columns of a sheet with a wide gap, because one cell far to the right widens every row."""
    if not any(WIDE_GAP in row for row in rows[:MAX_ROWS_ABOVE_HEADER]):
        return rows
    cells = {place: CELL_BORDER.split(row)[1:-1] for place, row in enumerate(rows) if row.startswith("|")}
    width = max((len(row) for row in cells.values()), default=0)
    used = [
        column for column in range(width) if any("".join(row[column : column + 1]).strip() for row in cells.values())
    ]
    return [
        "|" + "".join(f"{(cells[place] + [''] * width)[column]}|" for column in used) if place in cells else row
        for place, row in enumerate(rows)
    ]


def _join_cells(row: str) -> str:
    return " ".join(cell.strip() for cell in CELL_BORDER.split(row) if cell.strip())
