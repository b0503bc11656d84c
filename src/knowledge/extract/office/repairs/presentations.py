"""Repairs of PPTX and PPT: the order of the shapes on a slide, and the tables of PPT.

Record numbers are those of [MS-PPT], PowerPoint Binary File Format, and [MS-ODRAW], Office Drawing Binary File Format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import olefile

from knowledge.extract import markdown_tables
from knowledge.extract.base import Source
from knowledge.model import Json, JsonValue

TITLE_HEIGHT_EMU = 1_000_000
"""1.1 inches from the top (an inch is 914,400 EMU); slides are 5.6 or 7.5 inches high."""

STREAM = "PowerPoint Document"
GROUP_RECORD, SHAPE_RECORD, ANCHOR_RECORD, TEXT_BOX_RECORD = 0xF003, 0xF004, 0xF00F, 0xF00D
UTF16_TEXT_RECORD, LATIN1_TEXT_RECORD = 0x0FA0, 0x0FA8
PROPERTY_RECORDS, TABLE_PROPERTY = (0xF121, 0xF122), 0x039F
CONTAINER_VERSION = 0x0F


def order_elements(elements: list[Json]) -> list[JsonValue]:
    """Put the body below the title: office-oxide 0.1.15 puts shapes that take their position from the layout last."""
    return [*sorted(elements, key=_rank_element)]


def _rank_element(element: Json) -> int:
    """Rank titles and shapes beside them first, then shapes without a position, then all others."""
    height = element.get("y_emu")
    if element.get("type") == "heading" or (isinstance(height, int) and height < TITLE_HEIGHT_EMU):
        return 0
    return 2 if isinstance(height, int) else 1


@dataclass(frozen=True, slots=True)
class SlideTableCell:
    left: int
    top: int
    words: str

    @property
    def paragraphs(self) -> list[str]:
        return [line for line in map(_join_spaces, self.words.split("\r")) if line]


class PptRecord:
    """Header of one record: its type, its instance number and the byte range of its body."""

    __slots__ = ("count", "end", "is_container", "kind", "start")

    def __init__(self, data: bytes, place: int, border: int) -> None:
        flags, self.kind, length = struct.unpack_from("<HHI", data, place)
        self.is_container, self.count = flags & 0x0F == CONTAINER_VERSION, flags >> 4
        self.start, self.end = place + 8, min(border, place + 8 + length)


def read_ppt_tables(source: Source) -> list[list[SlideTableCell]]:
    """Read the cells of every PPT table: office-oxide 0.1.15 gives each cell as a paragraph, without rows."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            data = container.openstream(STREAM).read()
        return list(_find_tables(data))
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return []


def insert_tables(blocks: Sequence[str], tables: Sequence[list[SlideTableCell]]) -> list[str]:
    """Replace consecutive blocks of a slide that are the cells of a table by the table."""
    result, plain = list(blocks), [_join_spaces(block) for block in blocks]
    for cells in tables:
        wanted = [line for cell in cells for line in cell.paragraphs]
        places = range(len(plain) - len(wanted) + 1) if wanted else ()
        place = next((place for place in places if plain[place : place + len(wanted)] == wanted), None)
        if place is not None:
            table = markdown_tables.format_table(_arrange_rows(cells))
            result[place : place + len(wanted)] = [table]
            plain[place : place + len(wanted)] = [table]
    return result


def _arrange_rows(cells: list[SlideTableCell]) -> Iterator[list[str]]:
    columns = sorted({cell.left for cell in cells})
    for top in sorted({cell.top for cell in cells}):
        row = {cell.left: " ".join(cell.paragraphs) for cell in cells if cell.top == top}
        yield [row.get(column, "") for column in columns]


def _find_tables(data: bytes) -> Iterator[list[SlideTableCell]]:
    waiting = [(0, len(data))]
    while waiting:
        containers = [record for record in _read_records(data, *waiting.pop()) if record.is_container]
        for record in containers:
            if record.kind == GROUP_RECORD and _is_table(data, record):
                yield [
                    cell for shape in _read_records(data, record.start, record.end) for cell in _read_cells(data, shape)
                ]
        waiting += [(record.start, record.end) for record in reversed(containers)]


def _read_records(data: bytes, place: int, border: int) -> Iterator[PptRecord]:
    while place + 8 <= border:
        record = PptRecord(data, place, border)
        yield record
        place = record.end


def _is_table(data: bytes, group: PptRecord) -> bool:
    head = next(_read_records(data, group.start, group.end), None)
    return head is not None and any(
        struct.unpack_from("<H", data, record.start + 6 * number)[0] & 0x3FFF == TABLE_PROPERTY
        for record in _read_records(data, head.start, head.end)
        if record.kind in PROPERTY_RECORDS
        for number in range(record.count)
    )


def _read_cells(data: bytes, shape: PptRecord) -> Iterator[SlideTableCell]:
    """Yield a shape with an area as a cell; shapes without one are the lines between the cells."""
    parts = (
        {record.kind: record for record in _read_records(data, shape.start, shape.end)}
        if shape.kind == SHAPE_RECORD
        else {}
    )
    if ANCHOR_RECORD in parts:
        left, top, right, bottom = struct.unpack_from("<4i", data, parts[ANCHOR_RECORD].start)
        if right > left and bottom > top:
            box = parts.get(TEXT_BOX_RECORD)
            yield SlideTableCell(left, top, _read_text(data, box) if box else "")


def _read_text(data: bytes, box: PptRecord) -> str:
    encodings = {UTF16_TEXT_RECORD: "utf-16-le", LATIN1_TEXT_RECORD: "latin-1"}
    atoms = (record for record in _read_records(data, box.start, box.end) if record.kind in encodings)
    return "\r".join(data[atom.start : atom.end].decode(encodings[atom.kind], "replace") for atom in atoms)


def _join_spaces(words: str) -> str:
    return " ".join(words.split())
