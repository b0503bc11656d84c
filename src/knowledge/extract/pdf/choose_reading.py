"""Chooses between two readings of a page: liteparse's Markdown, or pdfium's plain text where that lost words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pypdfium2 as pdfium

from knowledge.extract.pdf.repairs.pages import turn_upright
from knowledge.extract.pdf.repairs.tables import FindCells, restore_borderless_tables, separate_rows
from knowledge.extract.pdf.repairs.words import (
    RTL_LETTER,
    correct_ligatures,
    expand_ligatures,
    join_hyphenated_lines,
    join_torn_words,
    restore_dashes,
    restore_rtl_order,
)

LONG_WORD = re.compile(r"\w{4,}")
MAX_LOST_SHARE, MAX_LOST_SHARE_ROTATED = 0.15, 0.05
"""Shares of the words of a page that liteparse's reading may lack."""
RTL_PAGE_SHARE = 0.2
"""Share of right-to-left letters above which pdfium's text is taken for the whole page."""
HYPHENATED_WORD = re.compile(r"(\w)[-\u00ad]\n(\w)")
TOP_EDGE_SHARE = 0.9
"""Height at which the top edge of a page begins, as a share from its bottom."""
MAX_SEARCH_CHARS = 60


@dataclass(frozen=True, slots=True)
class PlainReading:
    """The text of a page as pdfium returns it, after its repairs."""

    text: str
    is_turned: bool = False
    """The page's rotation does not fit its letters, so that liteparse's reading is useless."""
    ligature_words: Mapping[str, str] = field(default_factory=dict)
    """Words with ligatures: by the codes that pdfium returns, the letters."""


def read_plain(page: pdfium.PdfPage) -> PlainReading:
    text, is_turned = _read_text(page)
    if is_turned:
        text, _ = _read_text(page)
    text, words = expand_ligatures(join_hyphenated_lines(text))
    return PlainReading(text, is_turned, {} if is_turned else words)


def _read_text(page: pdfium.PdfPage) -> tuple[str, bool]:
    """Return the text of a page, and whether the page had to be turned, so that its text has to be read again."""
    textpage = page.get_textpage()
    try:
        return textpage.get_text_range(), turn_upright(page, textpage)
    finally:
        textpage.close()


def is_at_top(page: pdfium.PdfPage, line: str) -> bool:
    """Whether a line is at the top edge of its page, wherever it is in the content stream."""
    textpage = page.get_textpage()
    try:
        found = textpage.search(line.strip()[:MAX_SEARCH_CHARS]).get_next()
        return found is not None and textpage.get_charbox(found[0])[3] > TOP_EDGE_SHARE * page.get_height()
    finally:
        textpage.close()


def choose_reading(structured: str, plain: PlainReading, rotated: bool, find_cells: FindCells) -> str:
    words = LONG_WORD.findall(plain.text)
    if not words:
        return structured or plain.text
    structured = correct_ligatures(structured, plain.ligature_words, plain.text) if plain.ligature_words else structured
    known = set(LONG_WORD.findall(structured))
    lost = sum(word not in known for word in words) / len(words)
    max_lost = MAX_LOST_SHARE_ROTATED if rotated else MAX_LOST_SHARE
    if plain.is_turned or lost > max_lost or is_right_to_left(plain.text):
        return HYPHENATED_WORD.sub(r"\1\2", plain.text)
    structured = restore_dashes(restore_rtl_order(structured, plain.text), plain.text)
    structured = restore_borderless_tables(separate_rows(structured, plain.text), plain.text, find_cells)
    return join_torn_words(structured, plain.text)


def is_right_to_left(text: str) -> bool:
    if RTL_LETTER.search(text) is None:
        return False
    return len(RTL_LETTER.findall(text)) > RTL_PAGE_SHARE * sum(map(str.isalpha, text))
