"""Repairs of XLSX and XLS: cells that office-oxide prints differently from Excel.

XLSX cells are rewritten before office-oxide reads them. XLS is a binary stream, so the printed numbers are replaced
afterwards; record numbers are those of [MS-XLS], Excel Binary File Format.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

import olefile

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.base import Source
from knowledge.extract.safe_xml import local_name
from knowledge.extract.zip_archive import open_archive, replace_members

# Number formats (ECMA-376 part 1, 18.8.30)

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
"""Quoted text, escaped characters, and colours or locales in brackets; a format has at most 255 characters."""
ZERO_PADDED = re.compile("00+")
DAY_SECONDS = 86_400

# XLSX

WORKBOOK, STYLES, SHEETS = "xl/workbook.xml", "xl/styles.xml", "xl/worksheets/"
NUMBER_CELL = re.compile(
    rb'<c ([^<>]{0,200}?)s="(\d{1,9})"([^<>]{0,200}+)>(<f[^<>]*+>(?:(?<=/>)|[^<]*+</f>))?'
    rb"<v>(-?[\d.]+(?:E-?\d+)?)</v></c>"
)
CALCULATE_ON_LOAD = b"fullCalcOnLoad"
"""Attribute that writers without a formula engine set, so that Excel computes the empty values."""
EMPTY_VALUE = b"<v></v>"

RESIDUE_DIGITS = ("0000000", "9999999")
ROUNDING_RESIDUE = re.compile(rf"(?<=\| )-?\d+\.\d*(?:{'|'.join(RESIDUE_DIGITS)})\d+(?= \|)")

# XLS

STREAM = "Workbook"
BOUNDSHEET, FORMAT, XF, NUMBER, RK, MULRK, FORMULA, END_OF_SHEET = 0x85, 0x41E, 0xE0, 0x203, 0x27E, 0xBD, 0x06, 0x0A
GENERAL_FORMAT = "0"
CALENDAR_START = datetime(1899, 12, 31)
MISSING_LEAP_DAY = 60
"""Serial number of 29 February 1900, which Excel counts although that year had none."""
MAX_SERIAL = 1_000_000

TimesByText = dict[str, deque[str | None]]
"""Printed text to the times of the cells that print it, in reading order; None for a cell that is a plain number."""
XlsCell = tuple[int, int, int, float]
"""Row, column, index of the format, value."""


def is_time_format(code: str) -> bool:
    return bool(re.search("[hs]", code)) and not re.search("[yd0#?]", code.replace("ss.0", "ss"))


def format_time(value: float, code: str) -> str:
    """Format a fraction of a day; bracketed formats such as `[h]:mm` count days as hours."""
    seconds = round((value if "[" in code else value % 1) * DAY_SECONDS)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    if "h" not in code:
        return f"{seconds // 60:02d}:{rest:02d}"
    return f"{hours:02d}:{minutes:02d}" + (f":{rest:02d}" if "s" in code else "")


def repair_xlsx(source: Source) -> Source:
    """Return the workbook with rewritten sheets, or the source itself if no cell can need it."""
    with open_archive(source) as archive:
        codes = _read_formats(archive)
        if not codes and CALCULATE_ON_LOAD not in safe_xml.read_member(archive, WORKBOOK):
            return source
        sheets = [name for name in archive.namelist() if name.startswith(SHEETS)]
        changed = {}
        for name in sheets:
            sheet = drop_empty_values(safe_xml.read_member(archive, name))
            changed[name] = format_cells(sheet, codes) if codes else sheet
        return replace_members(source, changed)


def drop_empty_values(sheet: bytes) -> bytes:
    """Remove empty `<v>` elements: office-oxide 0.1.15 shows nothing for a formula that has one."""
    return sheet.replace(EMPTY_VALUE, b"")


def format_cells(sheet: bytes, codes: dict[bytes, str]) -> bytes:
    """Write times, durations and zero-padded codes as text: office-oxide 0.1.15 prints numbers or dates for them."""

    def format_cell(cell: re.Match[bytes]) -> bytes:
        before, style, after, _, value = cell.groups()
        others = (before + after).replace(b't="n"', b"")
        if style not in codes or b't="' in others or value.startswith(b"-"):
            return cell[0]
        return b'<c %b t="str"><v>%b</v></c>' % (others, _format_value(float(value), codes[style]).encode())

    return NUMBER_CELL.sub(format_cell, sheet)


def _format_value(value: float, code: str) -> str:
    return f"{round(value):0{len(code)}d}" if ZERO_PADDED.fullmatch(code) else format_time(value, code)


def _read_formats(archive: zipfile.ZipFile) -> dict[bytes, str]:
    """Return the format codes of times and zero-padded numbers by the style index that cells refer to."""
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


def round_residues(text: str) -> str:
    """Round to 15 digits like Excel: office-oxide 0.1.15 prints 1.7000000000000002 where a sheet shows 1.7."""
    if not any(residue in text for residue in RESIDUE_DIGITS):
        return text
    return ROUNDING_RESIDUE.sub(lambda number: f"{float(number[0]):.15g}", text)


def read_xls_times(source: Source) -> list[TimesByText]:
    """Read the times of each XLS sheet: office-oxide 0.1.15 prints them as fractions, and durations as dates."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            stream = container.openstream(STREAM).read() if container.exists(STREAM) else b""
        return _find_times(stream)
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return []


def replace_times(lines: list[str], times: TimesByText) -> list[str]:
    """Replace the printed numbers of a sheet by their times, in reading order."""
    return [" | ".join(_replace_time(cell, times) for cell in line.split(" | ")) if times else line for line in lines]


def _replace_time(cell: str, times: TimesByText) -> str:
    text = cell.removeprefix("| ").removesuffix(" |")
    waiting = times.get(text)
    time = waiting.popleft() if waiting else None
    return cell.replace(text, time) if time else cell


def _find_times(stream: bytes) -> list[TimesByText]:
    codes, uses, starts = dict(BUILT_IN_TIME_FORMATS), [], []
    for kind, body in _read_records(stream, 0):
        if kind == FORMAT:
            number, length, wide = struct.unpack_from("<HHB", body)
            code = body[5:].decode("utf-16-le" if wide & 1 else "latin-1", "replace")[:length]
            codes[str(number)] = LITERAL_PART.sub("", code).lower()
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
    # Numbers in the general format count too: they can print the same text as a time.
    cells = sorted(cell for kind, body in _read_records(stream, start) for cell in _read_cells(kind, body))
    times: TimesByText = defaultdict(deque)
    for *_, use, value in cells:
        if use in formats and (printed := _format_like_office_oxide(value)):
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
    """Decode an RkNumber: the upper half of a double or a 30-bit integer, optionally times 100."""
    if packed & 2:
        value = float(struct.unpack("<i", struct.pack("<I", packed))[0] >> 2)
    else:
        value = struct.unpack("<d", struct.pack("<Q", (packed & 0xFFFFFFFC) << 32))[0]
    return value / 100 if packed & 1 else value


def _format_like_office_oxide(value: float) -> str:
    """Return the text that office-oxide prints for a number with a time format, or "" if it has none."""
    if not 0 <= value < MAX_SERIAL:
        return ""
    if value >= 1 and value % 1:
        moment = CALENDAR_START + timedelta(seconds=round((value - (value > MISSING_LEAP_DAY)) * DAY_SECONDS))
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")
