"""Cells of Excel workbooks that office-oxide prints otherwise than Excel does are written as they are shown first.

Times of day are numbers below one, codes such as 01067 are numbers, and formulas may not have been calculated yet.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.archive import open_archive, rewritten
from knowledge.extract.base import Source
from knowledge.extract.safe_xml import local

WORKBOOK, STYLES, SHEETS = "xl/workbook.xml", "xl/styles.xml", "xl/worksheets/"
BUILT_IN = {
    "18": "h:mm",
    "19": "h:mm:ss",
    "20": "h:mm",
    "21": "h:mm:ss",
    "45": "mm:ss",
    "46": "[h]:mm:ss",
    "47": "mm:ss",
}
NO_CODE = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]{0,255}\]')
"""Words between quotes, single letters behind a backslash, colours and languages between brackets.
Excel allows 255 characters for a format."""
CELL = re.compile(
    rb'<c ([^<>]{0,200}?)s="(\d{1,9})"([^<>]{0,200}+)>(<f[^<>]*+>(?:(?<=/>)|[^<]*+</f>))?'
    rb"<v>(-?[\d.]+(?:E-?\d+)?)</v></c>"
)
"""XML has no `<` inside a tag, and a cell's attributes are short."""
DAY = 86_400
PADDED = re.compile("00+")
UNCALCULATED = b"fullCalcOnLoad"
"""What a program that calculates nothing tells Excel to do."""
NO_VALUE = b"<v></v>"
"""Where it stands office-oxide shows nothing; without it, the formula."""


def as_shown(source: Source) -> Source:
    """The workbook with such cells in words, or as it is where it has none."""
    with open_archive(source) as archive:
        codes = _codes(archive)
        if not codes and UNCALCULATED not in safe_xml.member(archive, WORKBOOK):
            return source
        sheets = [name for name in archive.namelist() if name.startswith(SHEETS)]
        changed = {name: _changed(safe_xml.member(archive, name), codes) for name in sheets}
        return rewritten(source, changed)


def _changed(sheet: bytes, codes: dict[bytes, str]) -> bytes:
    sheet = sheet.replace(NO_VALUE, b"")
    return CELL.sub(_spoken(codes), sheet) if codes else sheet


def _codes(archive: zipfile.ZipFile) -> dict[bytes, str]:
    """The formats of times and of codes, by the number under which cells refer to them."""
    try:
        root = safe_xml.parse(safe_xml.member(archive, STYLES))
    except errors.Damaged:
        return {}
    named = BUILT_IN | {
        element.get("numFmtId", ""): NO_CODE.sub("", element.get("formatCode", "")).lower()
        for element in root.iter()
        if local(element.tag) == "numFmt"
    }
    formats = next((list(element) for element in root.iter() if local(element.tag) == "cellXfs"), [])
    codes = ((str(place).encode(), named.get(one.get("numFmtId", ""), "")) for place, one in enumerate(formats))
    return {place: code for place, code in codes if is_time(code) or PADDED.fullmatch(code)}


def is_time(code: str) -> bool:
    return bool(re.search("[hs]", code)) and not re.search("[yd0#?]", code.replace("ss.0", "ss"))


def _spoken(codes: dict[bytes, str]) -> Callable[[re.Match[bytes]], bytes]:
    def spoken(cell: re.Match[bytes]) -> bytes:
        before, style, after, _, value = cell.groups()
        others = (before + after).replace(b't="n"', b"")
        if style not in codes or b't="' in others or value.startswith(b"-"):
            return cell[0]
        return b'<c %b t="str"><v>%b</v></c>' % (others, _shown(float(value), codes[style]).encode())

    return spoken


def _shown(value: float, code: str) -> str:
    return f"{round(value):0{len(code)}d}" if PADDED.fullmatch(code) else time_of(value, code)


def time_of(value: float, code: str) -> str:
    """A share of a day as a time; between brackets the days count as hours."""
    seconds = round((value if "[" in code else value % 1) * DAY)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    if "h" not in code:
        return f"{seconds // 60:02d}:{rest:02d}"
    return f"{hours:02d}:{minutes:02d}" + (f":{rest:02d}" if "s" in code else "")
