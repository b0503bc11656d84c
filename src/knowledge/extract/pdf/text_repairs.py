"""Fonts that TeX drew as pictures have no table of characters: their joined letters come as control characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from knowledge.extract.pdf.lines import reduce_to_letters

RTL_LETTER = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
TOKEN = re.compile(r"\S+")
RTL_PAGE_SHARE = 0.2
"""The share of a page's letters from which on all of it is read from right to left."""
MIN_LINE_WORDS = 2
"""Words of a line that have an order."""


def is_right_to_left(text: str) -> bool:
    if RTL_LETTER.search(text) is None:
        return False
    return len(RTL_LETTER.findall(text)) > RTL_PAGE_SHARE * sum(map(str.isalpha, text))


def restore_rtl_order(structured: str, plain: str) -> str:
    """Restores logical order of right-to-left lines, which liteparse returns in visual order (bidirectional text)."""
    if RTL_LETTER.search(plain) is None:
        return structured
    for line in (line.strip() for line in plain.split("\n") if RTL_LETTER.search(line)):
        words = [word for word in map(reduce_to_letters, line.split()) if word]
        if len(words) >= MIN_LINE_WORDS:
            structured = _restore_rtl_line(structured, words[::-1], line)
    return structured


def _restore_rtl_line(structured: str, backwards: list[str], line: str) -> str:
    tokens = [(token, reduce_to_letters(token[0])) for token in TOKEN.finditer(structured)]
    spoken = [pair for pair in tokens if pair[1]]
    for place in range(len(spoken) - len(backwards) + 1):
        found = spoken[place : place + len(backwards)]
        if [letters for _, letters in found] == backwards:
            return structured[: found[0][0].start()] + line + structured[found[-1][0].end() :]
    return structured


LIGATURES = ("ff", "fi", "fl", "ffi", "ffl")
OT1_LETTERS = dict(zip("\x0b\x0c\r\x0e\x0f", LIGATURES, strict=True))
T1_LETTERS = dict(zip("\x1b\x1c\x1d\x1e\x1f", LIGATURES, strict=True)) | {
    "\x10": "“", "\x11": "”", "\x12": "„", "\x13": "«", "\x14": "»", "\x15": "–", "\x16": "—", "ÿ": "ß",
}  # fmt: skip
"""By the codes of the two encodings that such fonts have; neither has a letter in the places of the other's f."""
LIGATURE_CODE = re.compile("[\x0b\x0c\x0e\x0f\x1b-\x1f]")
WORD_WITH_LIGATURE = re.compile(
    r"(?<![\w\x0b\x0c\x0e\x0f\x1b-\x1f])\w*+[\x0b\x0c\x0e\x0f\x1b-\x1f][\w\x0b\x0c\x0e\x0f\x1b-\x1f]*+"
)
MIN_LETTERS = 2
"""Letters beside the joined ones; a mark that stands alone is a sign of some other kind."""
MAX_LIGATURES_PER_WORD = 4
"""Of one word; with each of them the places double where the letters between them may stand."""
WORD = re.compile(r"\w+")


def expand_ligatures(text: str) -> tuple[str, dict[str, str]]:
    """The text in letters, and what each word with joined letters was written as."""
    words = [word for word in WORD_WITH_LIGATURE.findall(text) if sum(map(str.isalpha, word)) >= MIN_LETTERS]
    if not words:
        return text, {}
    table = str.maketrans(OT1_LETTERS if re.search("[\x0b\x0c\x0e\x0f]", "".join(words)) else T1_LETTERS)
    return text.translate(table), {word: word.translate(table) for word in words}


def correct_ligatures(structured: str, words: Mapping[str, str], plain: str) -> str:
    """The page with those words as they are: liteparse guesses, and a guess is a word that pdfium does not see."""
    known = set(WORD.findall(plain))
    for raw, word in words.items():
        parts = LIGATURE_CODE.split(raw)
        if len(parts) > MAX_LIGATURES_PER_WORD + 1:
            continue
        guess = r"\w{0,3}".join(re.escape(part) for part in parts)
        structured = re.sub(rf"(?<!\w){guess}(?!\w)", partial(_choose_word, known, word), structured)
    return structured


def _choose_word(known: set[str], word: str, found: re.Match[str]) -> str:
    return found[0] if found[0] in known else word
