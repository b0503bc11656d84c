"""Tables on slides of 1997 to 2003: groups of boxes, which office-oxide reads as paragraphs without rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import olefile

from knowledge.extract import tables
from knowledge.extract.base import Source

STREAM = "PowerPoint Document"
GROUP, SHAPE, PLACE, WORDS = 0xF003, 0xF004, 0xF00F, 0xF00D
WIDE_LETTERS, NARROW_LETTERS = 0x0FA0, 0x0FA8
MORE_PROPERTIES, IS_TABLE = (0xF121, 0xF122), 0x039F
HOLDS_OTHERS = 0x0F


@dataclass(frozen=True, slots=True)
class Cell:
    left: int
    top: int
    words: str

    @property
    def paragraphs(self) -> list[str]:
        return [line for line in map(_plain, self.words.split("\r")) if line]


class Record:
    """One record of the stream: what it is, how many properties it has, and where its body lies."""

    __slots__ = ("count", "end", "holds", "kind", "start")

    def __init__(self, data: bytes, place: int, border: int) -> None:
        flags, self.kind, length = struct.unpack_from("<HHI", data, place)
        self.holds, self.count = flags & 0x0F == HOLDS_OTHERS, flags >> 4
        self.start, self.end = place + 8, min(border, place + 8 + length)


def old_tables(source: Source) -> list[list[Cell]]:
    """The cells of every table, in the order in which they are kept."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            data = container.openstream(STREAM).read()
        return list(_tables(data))
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return []


def with_tables(blocks: Sequence[str], found: Sequence[list[Cell]]) -> list[str]:
    """The blocks of a slide; where they are the cells of a table, one after the other, the table stands instead."""
    result, plain = list(blocks), [_plain(block) for block in blocks]
    for cells in found:
        wanted = [line for cell in cells for line in cell.paragraphs]
        places = range(len(plain) - len(wanted) + 1) if wanted else ()
        place = next((place for place in places if plain[place : place + len(wanted)] == wanted), None)
        if place is not None:
            table = tables.table(_rows(cells))
            result[place : place + len(wanted)] = [table]
            plain[place : place + len(wanted)] = [table]
    return result


def _rows(cells: list[Cell]) -> Iterator[list[str]]:
    columns = sorted({cell.left for cell in cells})
    for top in sorted({cell.top for cell in cells}):
        row = {cell.left: " ".join(cell.paragraphs) for cell in cells if cell.top == top}
        yield [row.get(column, "") for column in columns]


def _tables(data: bytes) -> Iterator[list[Cell]]:
    waiting = [(0, len(data))]
    while waiting:
        inner = [record for record in _records(data, *waiting.pop()) if record.holds]
        for record in inner:
            if record.kind == GROUP and _is_table(data, record):
                yield [cell for shape in _records(data, record.start, record.end) for cell in _cells(data, shape)]
        waiting += [(record.start, record.end) for record in reversed(inner)]


def _records(data: bytes, place: int, border: int) -> Iterator[Record]:
    while place + 8 <= border:
        record = Record(data, place, border)
        yield record
        place = record.end


def _is_table(data: bytes, group: Record) -> bool:
    head = next(_records(data, group.start, group.end), None)
    return head is not None and any(
        struct.unpack_from("<H", data, record.start + 6 * number)[0] & 0x3FFF == IS_TABLE
        for record in _records(data, head.start, head.end)
        if record.kind in MORE_PROPERTIES
        for number in range(record.count)
    )


def _cells(data: bytes, shape: Record) -> Iterator[Cell]:
    """A shape with an extent; those without are the lines between the cells."""
    parts = {record.kind: record for record in _records(data, shape.start, shape.end)} if shape.kind == SHAPE else {}
    if PLACE in parts:
        left, top, right, bottom = struct.unpack_from("<4i", data, parts[PLACE].start)
        if right > left and bottom > top:
            words = parts.get(WORDS)
            yield Cell(left, top, _words(data, words) if words else "")


def _words(data: bytes, box: Record) -> str:
    encodings = {WIDE_LETTERS: "utf-16-le", NARROW_LETTERS: "latin-1"}
    atoms = (record for record in _records(data, box.start, box.end) if record.kind in encodings)
    return "\r".join(data[atom.start : atom.end].decode(encodings[atom.kind], "replace") for atom in atoms)


def _plain(words: str) -> str:
    return " ".join(words.split())
