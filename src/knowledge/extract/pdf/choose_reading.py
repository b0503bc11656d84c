"""Which of two readings of a page is better: the structured one, unless it lost words or read them backwards."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pypdfium2 as pdfium

from knowledge.extract.pdf.tables import FindCells, restore_borderless_tables, separate_rows
from knowledge.extract.pdf.text_repairs import correct_ligatures, expand_ligatures, is_right_to_left, restore_rtl_order

LONG_WORD = re.compile(r"\w{4,}")
MAX_LOST_SHARE = 0.15
"""The share of a page's words that may be missing from the structured reading."""
HYPHENATED_WORD = re.compile(r"(\w)[-\u00ad]\n(\w)")
DASHED_LINE_END = re.compile(r"(?<!\w)(\w{2,}+)([—–])\n(\w{2,}+)")
TORN_WORD = re.compile(r"-(\**)\n{1,2}(?:#{1,6} )?(\**)([^\W\dA-Z_]\w*)")
"""Where a word goes on in the next line or block."""
WORD_START, MAX_WORD_CHARS = re.compile(r"\w{2,}$"), 60
HEADING = re.compile(r"#{1,6} ")
SAMPLED_LETTERS = 40
"""Letters whose direction is looked at."""
HEAD_SHARE = 0.9
"""Where the head of a page begins, measured from its foot."""


@dataclass(frozen=True, slots=True)
class PlainReading:
    """Every character of a page, as pdfium gives them."""

    text: str
    is_turned: bool = False
    """Whether a reader sees it sideways or upside down, so that only this reading is of use."""
    ligature_words: Mapping[str, str] = field(default_factory=dict)
    """Words with letters for which the font has no names, as pdfium gives them and as they are."""


def read_plain(page: pdfium.PdfPage) -> PlainReading:
    text, upright = _read_text(page)
    if upright in (None, page.get_rotation()):
        text, words = expand_ligatures(text)
        return PlainReading(text, ligature_words=words)
    page.set_rotation(upright or 0)
    return PlainReading(expand_ligatures(_read_text(page)[0])[0], is_turned=True)


def _read_text(page: pdfium.PdfPage) -> tuple[str, int | None]:
    """The text, and the rotation of the page that would show most of its letters upright."""
    textpage = page.get_textpage()
    try:
        return _tidy_text(textpage.get_text_range()), _find_upright_rotation(textpage)
    finally:
        textpage.close()


def _tidy_text(text: str) -> str:
    """pdfium marks a hyphen that ends a line with U+FFFE."""
    return text.replace("\r\n", "\n").replace("\ufffe\n", "").replace("\ufffe", "")


def _find_upright_rotation(textpage: pdfium.PdfTextPage) -> int | None:
    count = textpage.count_chars()
    looked_at = range(0, count, max(1, count // SAMPLED_LETTERS))
    angles = (pdfium.raw.FPDFText_GetCharAngle(textpage, index) for index in looked_at)
    turns = Counter(round(2 * angle / math.pi) % 4 for angle in angles if angle >= 0)
    return 90 * turns.most_common(1)[0][0] if turns else None


def is_at_top(page: pdfium.PdfPage, line: str) -> bool:
    """Whether a line stands at the head of its page, whenever it was drawn."""
    textpage = page.get_textpage()
    try:
        found = textpage.search(line.strip()[:60]).get_next()
        return found is not None and textpage.get_charbox(found[0])[3] > HEAD_SHARE * page.get_height()
    finally:
        textpage.close()


def restore_dashes(structured: str, plain: str) -> str:
    """liteparse takes a dash at the end of a line for a hyphen and drops it; pdfium's text shows where one stood."""
    for before, dash, after in DASHED_LINE_END.findall(plain):
        structured = structured.replace(f"{before}{after}", f"{before}{dash}{after}", 1)
    return structured


def join_torn_words(structured: str, plain: str) -> str:
    """Words whole that liteparse left in two blocks, where pdfium does not; the first was no heading."""
    parts, done = [], 0
    for torn in TORN_WORD.finditer(structured):
        closed, opened, rest = torn.groups()
        begin = WORD_START.search(structured, max(done, torn.start() - MAX_WORD_CHARS), torn.start())
        if begin is None or f"{begin[0]}{rest}" not in plain:
            continue
        line = max(done, structured.rfind("\n", 0, torn.start()) + 1)
        heading = HEADING.match(structured, line)
        before = opened + structured[heading.end() : torn.start()] if heading else structured[line : torn.start()]
        parts += [structured[done:line], before, rest, "" if opened else closed]
        done = torn.end()
    return "".join(parts) + structured[done:]


def choose_reading(structured: str, plain: PlainReading, rotated: bool, find_cells: FindCells) -> str:
    words = LONG_WORD.findall(plain.text)
    if not words:
        return structured or plain.text
    structured = correct_ligatures(structured, plain.ligature_words, plain.text) if plain.ligature_words else structured
    known = set(LONG_WORD.findall(structured))
    lost = sum(word not in known for word in words) / len(words)
    if plain.is_turned or lost > MAX_LOST_SHARE or (rotated and lost > 0.05) or is_right_to_left(plain.text):
        return HYPHENATED_WORD.sub(r"\1\2", plain.text)
    structured = separate_rows(restore_dashes(restore_rtl_order(structured, plain.text), plain.text), plain.text)
    return join_torn_words(restore_borderless_tables(structured, plain.text, find_cells), plain.text)
