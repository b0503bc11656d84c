"""Words of Word 97 to 2003 that a reader does not see: those deleted while changes were tracked, and hidden ones."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import replace

import olefile

from knowledge.extract.base import Source

TEXT = "WordDocument"
TABLES = ("0Table", "1Table")
FLAGS, FORMATS, PIECES = 0x0A, 0xFA, 0x1A2
"""Where the head of the text says which table stream is in use, and where the two lists lie in that stream."""
SECOND_TABLE = 0x0200
DELETED, HIDDEN = 0x0800, 0x083C
OPERANDS = (1, 1, 2, 4, 2, 2, None, 3)
"""Bytes behind a property, by the last three bits of its name; None where the next byte says how many."""
PAGE = 512
FILLER = "\x1f"
"""What stands in place of an unseen letter, so that no other letter moves; nobody writes it."""
Range = tuple[int, int]


def seen(source: Source) -> Source:
    """The document with its unseen words struck out, or as it is where it has none."""
    try:
        data = bytearray(source.read())
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            text = container.openstream(TEXT).read()
            table = container.openstream(TABLES[bool(_number(text, FLAGS, "<H") & SECOND_TABLE)]).read()
        struck = _struck(text, table)
        return replace(source, content=_written(data, struck)) if struck != text else source
    except (OSError, ValueError, IndexError, struct.error):  # office-oxide says what is wrong with it
        return source


def _struck(text: bytes, table: bytes) -> bytes:
    struck = bytearray(text)
    pieces = list(_pieces(_listed(text, table, PIECES)))
    for start, end in _unseen(text, _listed(text, table, FORMATS)):
        for first, last, width in pieces:
            for place in range(max(start, first), min(end, last), width):
                if any(text[place + 1 : place + width]) or text[place] >= ord(" "):
                    struck[place : place + width] = FILLER.encode("utf-16-le")[:width]
    return bytes(struck)


def _written(data: bytearray, struck: bytes) -> bytes:
    file = io.BytesIO(data)
    with olefile.OleFileIO(file, write_mode=True) as container:
        container.write_stream(TEXT, struck)
        return file.getvalue()


def _listed(text: bytes, table: bytes, place: int) -> bytes:
    start, length = struct.unpack_from("<II", text, place)
    return table[start : start + length]


def _pieces(listed: bytes) -> Iterator[tuple[int, int, int]]:
    """Where text lies: its first byte, the one behind its last, and how many bytes each letter takes."""
    place = 0
    while listed[place] == 1:
        place += 3 + _number(listed, place + 1, "<H")
    count = (_number(listed, place + 1, "<I") - 4) // 12
    letters = struct.unpack_from(f"<{count + 1}I", listed, place + 5)
    for number in range(count):
        start = _number(listed, place + 5 + 4 * (count + 1) + 8 * number + 2, "<I")
        narrow, length = bool(start & 1 << 30), letters[number + 1] - letters[number]
        start = (start & ~(1 << 30)) // 2 if narrow else start
        yield start, start + length * (1 if narrow else 2), 1 if narrow else 2


def _unseen(text: bytes, listed: bytes) -> Iterator[Range]:
    count = (len(listed) - 4) // 8
    for number in struct.unpack_from(f"<{count}I", listed, 4 * (count + 1)):
        page = text[PAGE * (number & 0x3FFFFF) :][:PAGE]
        runs = page[PAGE - 1]
        borders = struct.unpack_from(f"<{runs + 1}I", page)
        for run in range(runs):
            place = 2 * page[4 * (runs + 1) + run]
            if place and _hides(page[place + 1 : place + 1 + page[place]]):
                yield borders[run], borders[run + 1]


def _hides(properties: bytes) -> bool:
    place = 0
    while place + 3 <= len(properties):
        name = _number(properties, place, "<H")
        if name in (DELETED, HIDDEN) and properties[place + 2] & 1:
            return True
        size = OPERANDS[name >> 13]
        place += 2 + (size if size is not None else 1 + properties[place + 2])
    return False


def _number(data: bytes, place: int, form: str) -> int:
    value: int = struct.unpack_from(form, data, place)[0]
    return value
