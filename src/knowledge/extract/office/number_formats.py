"""Dates and times in Excel workbooks (XLSX and XLS): formats the cells that office-oxide prints as numbers."""

from __future__ import annotations

import re
import struct
import zipfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal

import olefile

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.base import Source
from knowledge.extract.safe_xml import local_name
from knowledge.extract.zip_archive import open_archive, replace_members

STREAM = "Workbook"
BOUNDSHEET, FORMAT, XF, NUMBER, RK, MULRK, FORMULA, END_OF_SHEET = 0x85, 0x41E, 0xE0, 0x203, 0x27E, 0xBD, 0x06, 0x0A
GENERAL_FORMAT = "0"
"""The format of a number that is printed as it is; others are printed in ways that no time is."""
CALENDAR_START, MISSING_LEAP_DAY = datetime(1899, 12, 31), 60
"""The calendar of Excel counts a day that 1900 did not have."""

TimesByText = dict[str, deque[str | None]]
"""By what is printed: the time that each such cell of a sheet stands for, in order; None where it is a number."""
XlsCell = tuple[int, int, int, float]
"""Row, column, format, value."""

WORKBOOK, STYLES, SHEETS = "xl/workbook.xml", "xl/styles.xml", "xl/worksheets/"
BUILT_IN_TIME_FORMATS = {
    "18": "h:mm",
    "19": "h:mm:ss",
    "20": "h:mm",
    "21": "h:mm:ss",
    "45": "mm:ss",
    "46": "[h]:mm:ss",
    "47": "mm:ss",
}
LITERAL_PART = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]{0,255}\]')
"""Words between quotes, single letters behind a backslash, colours and languages between brackets.
Excel allows 255 characters for a format."""
NUMBER_CELL = re.compile(
    rb'<c ([^<>]{0,200}?)s="(\d{1,9})"([^<>]{0,200}+)>(<f[^<>]*+>(?:(?<=/>)|[^<]*+</f>))?'
    rb"<v>(-?[\d.]+(?:E-?\d+)?)</v></c>"
)
"""XML has no `<` inside a tag, and a cell's attributes are short."""
DAY_SECONDS = 86_400
ZERO_PADDED = re.compile("00+")
CALCULATE_ON_LOAD = b"fullCalcOnLoad"
"""What a program that calculates nothing tells Excel to do."""
EMPTY_VALUE = b"<v></v>"
"""Where it stands office-oxide shows nothing; without it, the formula."""


def read_xls_times(source: Source) -> list[TimesByText]:
    """What the numbers of each sheet stand for, where some of them are times."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            stream = container.openstream(STREAM).read() if container.exists(STREAM) else b""
        return _find_times(stream)
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return []


def _find_times(stream: bytes) -> list[TimesByText]:
    codes, uses, starts = dict(BUILT_IN_TIME_FORMATS), [], []
    for kind, body in _read_records(stream, 0):
        if kind == FORMAT:
            number, length, wide = struct.unpack_from("<HHB", body)
            words = body[5:].decode("utf-16-le" if wide & 1 else "latin-1", "replace")[:length]
            codes[str(number)] = LITERAL_PART.sub("", words).lower()
        elif kind == XF:
            uses.append(str(struct.unpack_from("<H", body, 2)[0]))
        elif kind == BOUNDSHEET:
            starts.append(struct.unpack_from("<I", body)[0])
    codes[GENERAL_FORMAT] = ""
    formats = {
        place: code
        for place, use in enumerate(uses)
        if is_time_format(code := codes.get(use, "")) or use == GENERAL_FORMAT
    }
    return [_read_sheet_times(stream, start, formats) for start in starts] if any(formats.values()) else []


def _read_records(stream: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    while place + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, place)
        yield kind, stream[place + 4 : place + 4 + length]
        if kind == END_OF_SHEET:
            return
        place += 4 + length


def _read_sheet_times(stream: bytes, start: int, formats: dict[int, str]) -> TimesByText:
    cells = sorted(cell for kind, body in _read_records(stream, start) for cell in _read_cells(kind, body))
    times: TimesByText = defaultdict(deque)
    for *_, use, value in cells:
        if use in formats and (printed := _format_as_printed(value)):
            times[printed].append(format_time(value, formats[use]) if formats[use] else None)
    return dict(times)


def _read_cells(kind: int, body: bytes) -> Iterator[XlsCell]:
    if kind in (NUMBER, FORMULA):
        row, column, use = struct.unpack_from("<HHH", body)
        if kind == NUMBER or body[12:14] != b"\xff\xff":
            yield row, column, use, struct.unpack_from("<d", body, 6)[0]
    elif kind == RK:
        row, column, use, packed = struct.unpack_from("<HHHI", body)
        yield row, column, use, _decode_rk(packed)
    elif kind == MULRK:
        row, column = struct.unpack_from("<HH", body)
        for place in range(4, len(body) - 2, 6):
            use, packed = struct.unpack_from("<HI", body, place)
            yield row, column + place // 6, use, _decode_rk(packed)


def _decode_rk(packed: int) -> float:
    """A number in four bytes: the upper half of a long one, or a whole one, perhaps a hundred times too large."""
    if packed & 2:
        value = float(struct.unpack("<i", struct.pack("<I", packed))[0] >> 2)
    else:
        value = struct.unpack("<d", struct.pack("<Q", (packed & 0xFFFFFFFC) << 32))[0]
    return value / 100 if packed & 1 else value


def _format_as_printed(value: float) -> str:
    """As office-oxide writes it: a share of a day as a number, more than a day as a date."""
    if not 0 <= value < 1_000_000:
        return ""
    if value >= 1 and value % 1:
        moment = CALENDAR_START + timedelta(seconds=round((value - (value > MISSING_LEAP_DAY)) * 86_400))
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def replace_times(lines: list[str], times: TimesByText) -> list[str]:
    """The rows of a sheet with its times in words."""
    return [" | ".join(_replace_time(cell, times) for cell in line.split(" | ")) if times else line for line in lines]


def _replace_time(cell: str, times: TimesByText) -> str:
    words = cell.removeprefix("| ").removesuffix(" |")
    waiting = times.get(words)
    time = waiting.popleft() if waiting else None
    return cell.replace(words, time) if time else cell


def apply_number_formats(source: Source) -> Source:
    """The workbook with such cells in words, or as it is where it has none."""
    with open_archive(source) as archive:
        codes = _read_formats(archive)
        if not codes and CALCULATE_ON_LOAD not in safe_xml.read_member(archive, WORKBOOK):
            return source
        sheets = [name for name in archive.namelist() if name.startswith(SHEETS)]
        changed = {name: _rewrite_sheet(safe_xml.read_member(archive, name), codes) for name in sheets}
        return replace_members(source, changed)


def _rewrite_sheet(sheet: bytes, codes: dict[bytes, str]) -> bytes:
    sheet = sheet.replace(EMPTY_VALUE, b"")
    return NUMBER_CELL.sub(_make_cell_formatter(codes), sheet) if codes else sheet


def _read_formats(archive: zipfile.ZipFile) -> dict[bytes, str]:
    """The formats of times and of codes, by the number under which cells refer to them."""
    try:
        root = safe_xml.parse_xml(safe_xml.read_member(archive, STYLES))
    except errors.Damaged:
        return {}
    named = BUILT_IN_TIME_FORMATS | {
        element.get("numFmtId", ""): LITERAL_PART.sub("", element.get("formatCode", "")).lower()
        for element in root.iter()
        if local_name(element.tag) == "numFmt"
    }
    formats = next((list(element) for element in root.iter() if local_name(element.tag) == "cellXfs"), [])
    codes = ((str(place).encode(), named.get(one.get("numFmtId", ""), "")) for place, one in enumerate(formats))
    return {place: code for place, code in codes if is_time_format(code) or ZERO_PADDED.fullmatch(code)}


def is_time_format(code: str) -> bool:
    return bool(re.search("[hs]", code)) and not re.search("[yd0#?]", code.replace("ss.0", "ss"))


def _make_cell_formatter(codes: dict[bytes, str]) -> Callable[[re.Match[bytes]], bytes]:
    def spoken(cell: re.Match[bytes]) -> bytes:
        before, style, after, _, value = cell.groups()
        others = (before + after).replace(b't="n"', b"")
        if style not in codes or b't="' in others or value.startswith(b"-"):
            return cell[0]
        return b'<c %b t="str"><v>%b</v></c>' % (others, _format_value(float(value), codes[style]).encode())

    return spoken


def _format_value(value: float, code: str) -> str:
    return f"{round(value):0{len(code)}d}" if ZERO_PADDED.fullmatch(code) else format_time(value, code)


def format_time(value: float, code: str) -> str:
    """A share of a day as a time; between brackets the days count as hours."""
    seconds = round((value if "[" in code else value % 1) * DAY_SECONDS)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    if "h" not in code:
        return f"{seconds // 60:02d}:{rest:02d}"
    return f"{hours:02d}:{minutes:02d}" + (f":{rest:02d}" if "s" in code else "")
