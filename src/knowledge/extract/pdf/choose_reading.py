"""Which of two readings of a page is better: the structured one, unless it lost words or read them backwards."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pypdfium2 as pdfium

from knowledge.extract.pdf.borderless_tables import Ask, restored
from knowledge.extract.pdf.ligatures import respelt, spelt
from knowledge.extract.pdf.rtl import runs_left, turned
from knowledge.extract.pdf.table_rows import mended

WORD = re.compile(r"\w{4,}")
MOST_LOST = 0.15
"""The share of a page's words that may be missing from the structured reading."""
PARTED = re.compile(r"(\w)[-\u00ad]\n(\w)")
DASHED = re.compile(r"(?<!\w)(\w{2,}+)([—–])\n(\w{2,}+)")
TORN = re.compile(r"-(\**)\n{1,2}(?:#{1,6} )?(\**)([^\W\dA-Z_]\w*)")
"""Where a word goes on in the next line or block."""
START, LONGEST = re.compile(r"\w{2,}$"), 60
HEADING = re.compile(r"#{1,6} ")
LOOKS = 40
"""Letters whose direction is looked at."""
HEAD = 0.9
"""Where the head of a page begins, measured from its foot."""


@dataclass(frozen=True, slots=True)
class Plain:
    """Every character of a page, as pdfium gives them."""

    text: str
    turned: bool = False
    """Whether a reader sees it sideways or upside down, so that only this reading is of use."""
    joined: Mapping[str, str] = field(default_factory=dict)
    """Words with letters for which the font has no names, as pdfium gives them and as they are."""


def read_plain(page: pdfium.PdfPage) -> Plain:
    text, upright = _read(page)
    if upright in (None, page.get_rotation()):
        text, words = spelt(text)
        return Plain(text, joined=words)
    page.set_rotation(upright or 0)
    return Plain(spelt(_read(page)[0])[0], turned=True)


def _read(page: pdfium.PdfPage) -> tuple[str, int | None]:
    """The text, and the rotation of the page that would show most of its letters upright."""
    textpage = page.get_textpage()
    try:
        return _tidy(textpage.get_text_range()), _upright(textpage)
    finally:
        textpage.close()


def _tidy(text: str) -> str:
    """pdfium marks a hyphen that ends a line with U+FFFE."""
    return text.replace("\r\n", "\n").replace("\ufffe\n", "").replace("\ufffe", "")


def _upright(textpage: pdfium.PdfTextPage) -> int | None:
    count = textpage.count_chars()
    looked_at = range(0, count, max(1, count // LOOKS))
    angles = (pdfium.raw.FPDFText_GetCharAngle(textpage, index) for index in looked_at)
    turns = Counter(round(2 * angle / math.pi) % 4 for angle in angles if angle >= 0)
    return 90 * turns.most_common(1)[0][0] if turns else None


def at_top(page: pdfium.PdfPage, line: str) -> bool:
    """Whether a line stands at the head of its page, whenever it was drawn."""
    textpage = page.get_textpage()
    try:
        found = textpage.search(line.strip()[:60]).get_next()
        return found is not None and textpage.get_charbox(found[0])[3] > HEAD * page.get_height()
    finally:
        textpage.close()


def rejoin(structured: str, plain: str) -> str:
    """liteparse takes a dash at the end of a line for a hyphen and drops it; pdfium's text shows where one stood."""
    for before, dash, after in DASHED.findall(plain):
        structured = structured.replace(f"{before}{after}", f"{before}{dash}{after}", 1)
    return structured


def untorn(structured: str, plain: str) -> str:
    """Words whole that liteparse left in two blocks, where pdfium does not; the first was no heading."""
    parts, done = [], 0
    for torn in TORN.finditer(structured):
        closed, opened, rest = torn.groups()
        begin = START.search(structured, max(done, torn.start() - LONGEST), torn.start())
        if begin is None or f"{begin[0]}{rest}" not in plain:
            continue
        line = max(done, structured.rfind("\n", 0, torn.start()) + 1)
        heading = HEADING.match(structured, line)
        before = opened + structured[heading.end() : torn.start()] if heading else structured[line : torn.start()]
        parts += [structured[done:line], before, rest, "" if opened else closed]
        done = torn.end()
    return "".join(parts) + structured[done:]


def better(structured: str, plain: Plain, rotated: bool, cells_of: Ask) -> str:
    words = WORD.findall(plain.text)
    if not words:
        return structured or plain.text
    structured = respelt(structured, plain.joined, plain.text) if plain.joined else structured
    known = set(WORD.findall(structured))
    lost = sum(word not in known for word in words) / len(words)
    if plain.turned or lost > MOST_LOST or (rotated and lost > 0.05) or runs_left(plain.text):
        return PARTED.sub(r"\1\2", plain.text)
    structured = mended(rejoin(turned(structured, plain.text), plain.text), plain.text)
    return untorn(restored(structured, plain.text, cells_of), plain.text)
