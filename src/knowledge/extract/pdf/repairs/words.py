"""Repairs of words: ligatures, hyphens, dashes, words in two blocks, right-to-left lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

RTL_LETTER = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
TOKEN = re.compile(r"\S+")
MIN_ORDERED_WORDS = 2
NOT_LETTERS = re.compile(r"[\W_]+")

LIGATURES = ("ff", "fi", "fl", "ffi", "ffl")
OT1_LETTERS = dict(zip("\x0b\x0c\r\x0e\x0f", LIGATURES, strict=True))
T1_LETTERS = dict(zip("\x1b\x1c\x1d\x1e\x1f", LIGATURES, strict=True)) | {
    "\x10": "“", "\x11": "”", "\x12": "„", "\x13": "«", "\x14": "»", "\x15": "–", "\x16": "—", "ÿ": "ß",
}  # fmt: skip
"""The two TeX font encodings; the codes of the ligatures of one are unused in the other."""
LIGATURE_CODE = re.compile("[\x0b\x0c\x0e\x0f\x1b-\x1f]")
WORD_WITH_LIGATURE = re.compile(
    r"(?<![\w\x0b\x0c\x0e\x0f\x1b-\x1f])\w*+[\x0b\x0c\x0e\x0f\x1b-\x1f][\w\x0b\x0c\x0e\x0f\x1b-\x1f]*+"
)
MIN_WORD_LETTERS = 2
"""Letters of a word besides its ligatures; a code alone is another symbol."""
MAX_LIGATURES_PER_WORD = 4
"""Because each one doubles the number of ways to match the letters between them."""
WORD = re.compile(r"\w+")

DASHED_LINE_END = re.compile(r"(?<!\w)(\w{2,}+)([—–])\n(\w{2,}+)")
TORN_WORD = re.compile(r"-(\**)\n{1,2}(?:#{1,6} )?(\**)([^\W\dA-Z_]\w*)")
WORD_START, MAX_WORD_CHARS = re.compile(r"\w{2,}$"), 60
HEADING = re.compile(r"#{1,6} ")


def reduce_to_letters(text: str) -> str:
    """Return only the letters and digits, in lower case, to compare texts regardless of line ends and markup."""
    return NOT_LETTERS.sub("", text).casefold()


def join_hyphenated_lines(text: str) -> str:
    """Join words that are hyphenated at a line end.

    Fault: pdfium replaces the hyphen by the noncharacter U+FFFE.
    """
    return text.replace("\r\n", "\n").replace("\ufffe\n", "").replace("\ufffe", "")


def expand_ligatures(text: str) -> tuple[str, dict[str, str]]:
    """Return the text with its ligatures as letters, and each word with a ligature as it was and as it is now.

    Fault: pdfium returns the codes of a font without a table of characters (Type 3 fonts of TeX) as control characters.
    """
    words = [word for word in WORD_WITH_LIGATURE.findall(text) if sum(map(str.isalpha, word)) >= MIN_WORD_LETTERS]
    if not words:
        return text, {}
    table = str.maketrans(OT1_LETTERS if re.search("[\x0b\x0c\x0e\x0f]", "".join(words)) else T1_LETTERS)
    return text.translate(table), {word: word.translate(table) for word in words}


def correct_ligatures(structured: str, words: Mapping[str, str], plain: str) -> str:
    """Replace wrong ligatures by those that `expand_ligatures` found.

    Fault: liteparse guesses the letters of these codes ("reThect" for "reflect") or drops them.
    """
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


def restore_rtl_order(structured: str, plain: str) -> str:
    """Restore the logical order of right-to-left lines on a page that is read from left to right.

    Fault: liteparse returns the words of such lines in visual order.
    """
    if RTL_LETTER.search(plain) is None:
        return structured
    for line in (line.strip() for line in plain.split("\n") if RTL_LETTER.search(line)):
        words = [word for word in map(reduce_to_letters, line.split()) if word]
        if len(words) >= MIN_ORDERED_WORDS:
            structured = _restore_rtl_line(structured, words[::-1], line)
    return structured


def _restore_rtl_line(structured: str, backwards: list[str], line: str) -> str:
    tokens = [(token, reduce_to_letters(token[0])) for token in TOKEN.finditer(structured)]
    words = [pair for pair in tokens if pair[1]]
    for place in range(len(words) - len(backwards) + 1):
        found = words[place : place + len(backwards)]
        if [letters for _, letters in found] == backwards:
            return structured[: found[0][0].start()] + line + structured[found[-1][0].end() :]
    return structured


def restore_dashes(structured: str, plain: str) -> str:
    """Put back dashes between two words.

    Fault: liteparse takes a dash at the end of a line for a hyphen, drops it and joins the words.
    """
    for before, dash, after in DASHED_LINE_END.findall(plain):
        structured = structured.replace(f"{before}{after}", f"{before}{dash}{after}", 1)
    return structured


def join_torn_words(structured: str, plain: str) -> str:
    """Join the two halves of a hyphenated word in two blocks, where pdfium has the word; the first is no heading.

    Fault: liteparse takes the two lines for two blocks, and often the first for a heading.
    """
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
