"""Repairs of DOC (Word 97 to 2003): deleted and hidden text is overwritten in the file before office-oxide reads it.

Offsets, records and property names are those of [MS-DOC], Word (.doc) Binary File Format.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import replace

import olefile

from knowledge.extract.base import Source

TEXT_STREAM = "WordDocument"
TABLE_STREAMS = ("0Table", "1Table")
FLAGS_OFFSET, FORMATS_OFFSET, PIECES_OFFSET = 0x0A, 0xFA, 0x1A2
"""In the FIB: the flags, fcPlcfBteChpx (character formats) and fcClx (piece table)."""
SECOND_TABLE_FLAG = 0x0200
DELETED_PROPERTY, HIDDEN_PROPERTY = 0x0800, 0x083C
"""sprmCFRMarkDel and sprmCFVanish."""
OPERAND_BYTES = (1, 1, 2, 4, 2, 2, None, 3)
"""Operand size by the upper three bits of a property; None: the next byte holds the size."""
PAGE_BYTES = 512
NARROW_PIECE_FLAG = 1 << 30
FILLER = "\x1f"
"""Replaces each hidden character, so that no offset changes; clean_text removes it later."""

ByteRange = tuple[int, int]


def blank_hidden_text(source: Source) -> Source:
    """Overwrite deleted and hidden text: office-oxide 0.1.15 ignores sprmCFRMarkDel and sprmCFVanish and shows it."""
    try:
        data = bytearray(source.read())
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            text = container.openstream(TEXT_STREAM).read()
            second = bool(_read_number(text, FLAGS_OFFSET, "<H") & SECOND_TABLE_FLAG)
            table = container.openstream(TABLE_STREAMS[second]).read()
        blanked = _overwrite_hidden_text(text, table)
        return replace(source, content=_write_text_stream(data, blanked)) if blanked != text else source
    except (OSError, ValueError, IndexError, struct.error):  # office-oxide reports the damage
        return source


def _overwrite_hidden_text(text: bytes, table: bytes) -> bytes:
    blanked = bytearray(text)
    pieces = list(_read_pieces(_read_table_part(text, table, PIECES_OFFSET)))
    for start, end in _find_hidden_ranges(text, _read_table_part(text, table, FORMATS_OFFSET)):
        for first, last, width in pieces:
            for place in range(max(start, first), min(end, last), width):
                if any(text[place + 1 : place + width]) or text[place] >= ord(" "):
                    blanked[place : place + width] = FILLER.encode("utf-16-le")[:width]
    return bytes(blanked)


def _write_text_stream(data: bytearray, text: bytes) -> bytes:
    file = io.BytesIO(data)
    with olefile.OleFileIO(file, write_mode=True) as container:
        container.write_stream(TEXT_STREAM, text)
        return file.getvalue()


def _read_table_part(text: bytes, table: bytes, place: int) -> bytes:
    start, length = struct.unpack_from("<II", text, place)
    return table[start : start + length]


def _read_pieces(clx: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the byte range of each piece of text and the bytes per character."""
    place = 0
    while clx[place] == 1:
        place += 3 + _read_number(clx, place + 1, "<H")
    count = (_read_number(clx, place + 1, "<I") - 4) // 12
    positions = struct.unpack_from(f"<{count + 1}I", clx, place + 5)
    for number in range(count):
        start = _read_number(clx, place + 5 + 4 * (count + 1) + 8 * number + 2, "<I")
        narrow, length = bool(start & NARROW_PIECE_FLAG), positions[number + 1] - positions[number]
        start = (start & ~NARROW_PIECE_FLAG) // 2 if narrow else start
        yield start, start + length * (1 if narrow else 2), 1 if narrow else 2


def _find_hidden_ranges(text: bytes, plcf: bytes) -> Iterator[ByteRange]:
    count = (len(plcf) - 4) // 8
    for number in struct.unpack_from(f"<{count}I", plcf, 4 * (count + 1)):
        page = text[PAGE_BYTES * (number & 0x3FFFFF) :][:PAGE_BYTES]
        runs = page[PAGE_BYTES - 1]
        borders = struct.unpack_from(f"<{runs + 1}I", page)
        for run in range(runs):
            place = 2 * page[4 * (runs + 1) + run]
            if place and _has_hidden_property(page[place + 1 : place + 1 + page[place]]):
                yield borders[run], borders[run + 1]


def _has_hidden_property(properties: bytes) -> bool:
    place = 0
    while place + 3 <= len(properties):
        name = _read_number(properties, place, "<H")
        if name in (DELETED_PROPERTY, HIDDEN_PROPERTY) and properties[place + 2] & 1:
            return True
        size = OPERAND_BYTES[name >> 13]
        place += 2 + (size if size is not None else 1 + properties[place + 2])
    return False


def _read_number(data: bytes, place: int, form: str) -> int:
    value: int = struct.unpack_from(form, data, place)[0]
    return value
