"""Times of day in workbooks of 1997 to 2003: office-oxide prints shares of a day, the file knows what they mean."""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

import olefile

from knowledge.extract.base import Source
from knowledge.extract.office.xlsx_number_formats import BUILT_IN, NO_CODE, is_time, time_of

STREAM = "Workbook"
BOUNDSHEET, FORMAT, XF, NUMBER, RK, ROW_OF_RK, FORMULA, END = 0x85, 0x41E, 0xE0, 0x203, 0x27E, 0xBD, 0x06, 0x0A
GENERAL = "0"
"""The format of a number that is printed as it is; others are printed in ways that no time is."""
FIRST_DAY, LEAP = datetime(1899, 12, 31), 60
"""The calendar of Excel counts a day that 1900 did not have."""

Times = dict[str, deque[str | None]]
"""By what is printed: the time that each such cell of a sheet stands for, in order; None where it is a number."""
Cell = tuple[int, int, int, float]
"""Row, column, format, value."""


def old_times(source: Source) -> list[Times]:
    """What the numbers of each sheet stand for, where some of them are times."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            stream = container.openstream(STREAM).read() if container.exists(STREAM) else b""
        return _times(stream)
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return []


def _times(stream: bytes) -> list[Times]:
    codes, uses, starts = dict(BUILT_IN), [], []
    for kind, body in _records(stream, 0):
        if kind == FORMAT:
            number, length, wide = struct.unpack_from("<HHB", body)
            words = body[5:].decode("utf-16-le" if wide & 1 else "latin-1", "replace")[:length]
            codes[str(number)] = NO_CODE.sub("", words).lower()
        elif kind == XF:
            uses.append(str(struct.unpack_from("<H", body, 2)[0]))
        elif kind == BOUNDSHEET:
            starts.append(struct.unpack_from("<I", body)[0])
    codes[GENERAL] = ""
    formats = {place: code for place, use in enumerate(uses) if is_time(code := codes.get(use, "")) or use == GENERAL}
    return [_sheet(stream, start, formats) for start in starts] if any(formats.values()) else []


def _records(stream: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    while place + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, place)
        yield kind, stream[place + 4 : place + 4 + length]
        if kind == END:
            return
        place += 4 + length


def _sheet(stream: bytes, start: int, formats: dict[int, str]) -> Times:
    cells = sorted(cell for kind, body in _records(stream, start) for cell in _cells(kind, body))
    times: Times = defaultdict(deque)
    for *_, use, value in cells:
        if use in formats and (printed := _printed(value)):
            times[printed].append(time_of(value, formats[use]) if formats[use] else None)
    return dict(times)


def _cells(kind: int, body: bytes) -> Iterator[Cell]:
    if kind in (NUMBER, FORMULA):
        row, column, use = struct.unpack_from("<HHH", body)
        if kind == NUMBER or body[12:14] != b"\xff\xff":
            yield row, column, use, struct.unpack_from("<d", body, 6)[0]
    elif kind == RK:
        row, column, use, packed = struct.unpack_from("<HHHI", body)
        yield row, column, use, _unpacked(packed)
    elif kind == ROW_OF_RK:
        row, column = struct.unpack_from("<HH", body)
        for place in range(4, len(body) - 2, 6):
            use, packed = struct.unpack_from("<HI", body, place)
            yield row, column + place // 6, use, _unpacked(packed)


def _unpacked(packed: int) -> float:
    """A number in four bytes: the upper half of a long one, or a whole one, perhaps a hundred times too large."""
    if packed & 2:
        value = float(struct.unpack("<i", struct.pack("<I", packed))[0] >> 2)
    else:
        value = struct.unpack("<d", struct.pack("<Q", (packed & 0xFFFFFFFC) << 32))[0]
    return value / 100 if packed & 1 else value


def _printed(value: float) -> str:
    """As office-oxide writes it: a share of a day as a number, more than a day as a date."""
    if not 0 <= value < 1_000_000:
        return ""
    if value >= 1 and value % 1:
        moment = FIRST_DAY + timedelta(seconds=round((value - (value > LEAP)) * 86_400))
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def spoken(lines: list[str], times: Times) -> list[str]:
    """The rows of a sheet with its times in words."""
    return [" | ".join(_said(cell, times) for cell in line.split(" | ")) if times else line for line in lines]


def _said(cell: str, times: Times) -> str:
    words = cell.removeprefix("| ").removesuffix(" |")
    waiting = times.get(words)
    time = waiting.popleft() if waiting else None
    return cell.replace(words, time) if time else cell
