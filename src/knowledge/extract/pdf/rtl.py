"""Lines in Hebrew, Arabic and their kin, whose words liteparse sets in the order of their places, from the left."""

from __future__ import annotations

import re

from knowledge.extract.pdf.lost_lines import squeezed

LEFTWARDS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
TOKEN = re.compile(r"\S+")
MOST = 0.2
"""The share of a page's letters from which on all of it is read from right to left."""
FEWEST = 2
"""Words of a line that have an order."""


def runs_left(text: str) -> bool:
    if LEFTWARDS.search(text) is None:
        return False
    return len(LEFTWARDS.findall(text)) > MOST * sum(map(str.isalpha, text))


def turned(structured: str, plain: str) -> str:
    """The page with such lines in the order in which they are read, which pdfium knows."""
    if LEFTWARDS.search(plain) is None:
        return structured
    for line in (line.strip() for line in plain.split("\n") if LEFTWARDS.search(line)):
        words = [word for word in map(squeezed, line.split()) if word]
        if len(words) >= FEWEST:
            structured = _turned(structured, words[::-1], line)
    return structured


def _turned(structured: str, backwards: list[str], line: str) -> str:
    tokens = [(token, squeezed(token[0])) for token in TOKEN.finditer(structured)]
    spoken = [pair for pair in tokens if pair[1]]
    for place in range(len(spoken) - len(backwards) + 1):
        found = spoken[place : place + len(backwards)]
        if [letters for _, letters in found] == backwards:
            return structured[: found[0][0].start()] + line + structured[found[-1][0].end() :]
    return structured
