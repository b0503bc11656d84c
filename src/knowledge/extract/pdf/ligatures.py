"""Fonts that TeX drew as pictures have no table of characters: their joined letters come as control characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

JOINED = ("ff", "fi", "fl", "ffi", "ffl")
OLDER = dict(zip("\x0b\x0c\r\x0e\x0f", JOINED, strict=True))
NEWER = dict(zip("\x1b\x1c\x1d\x1e\x1f", JOINED, strict=True)) | {
    "\x10": "“", "\x11": "”", "\x12": "„", "\x13": "«", "\x14": "»", "\x15": "–", "\x16": "—", "ÿ": "ß",
}  # fmt: skip
"""By the codes of the two encodings that such fonts have; neither has a letter in the places of the other's f."""
MARK = re.compile("[\x0b\x0c\x0e\x0f\x1b-\x1f]")
TORN = re.compile(r"(?<![\w\x0b\x0c\x0e\x0f\x1b-\x1f])\w*+[\x0b\x0c\x0e\x0f\x1b-\x1f][\w\x0b\x0c\x0e\x0f\x1b-\x1f]*+")
FEWEST = 2
"""Letters beside the joined ones; a mark that stands alone is a sign of some other kind."""
MOST_MARKS = 4
"""Of one word; with each of them the places double where the letters between them may stand."""
WORD = re.compile(r"\w+")


def spelt(text: str) -> tuple[str, dict[str, str]]:
    """The text in letters, and what each word with joined letters was written as."""
    words = [word for word in TORN.findall(text) if sum(map(str.isalpha, word)) >= FEWEST]
    if not words:
        return text, {}
    table = str.maketrans(OLDER if re.search("[\x0b\x0c\x0e\x0f]", "".join(words)) else NEWER)
    return text.translate(table), {word: word.translate(table) for word in words}


def respelt(structured: str, words: Mapping[str, str], plain: str) -> str:
    """The page with those words as they are: liteparse guesses, and a guess is a word that pdfium does not see."""
    known = set(WORD.findall(plain))
    for raw, word in words.items():
        parts = MARK.split(raw)
        if len(parts) > MOST_MARKS + 1:
            continue
        guess = r"\w{0,3}".join(re.escape(part) for part in parts)
        structured = re.sub(rf"(?<!\w){guess}(?!\w)", partial(_chosen, known, word), structured)
    return structured


def _chosen(known: set[str], word: str, found: re.Match[str]) -> str:
    return found[0] if found[0] in known else word
