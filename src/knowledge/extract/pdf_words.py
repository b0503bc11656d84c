"""Which of two readings of a page is better: the structured one, unless it lost words."""

from __future__ import annotations

import re

import pypdfium2 as pdfium

WORD = re.compile(r"\w{4,}")
MOST_LOST = 0.15
"""The share of a page's words that may be missing from the structured reading."""
PARTED = re.compile(r"(\w)[-\u00ad]\n(\w)")
"""pdfium marks a hyphen that ends a line with U+FFFE."""


DASHED = re.compile(r"(\w{2,})([—–])\n(\w{2,})")


def plain_text(page: pdfium.PdfPage) -> str:
    textpage = page.get_textpage()
    try:
        text: str = textpage.get_text_range()
    finally:
        textpage.close()
    return text.replace("\r\n", "\n").replace("\ufffe\n", "").replace("\ufffe", "")


def rejoin(structured: str, plain: str) -> str:
    """liteparse takes a dash at the end of a line for a hyphen and drops it; pdfium's text shows where one stood."""
    for before, dash, after in DASHED.findall(plain):
        structured = structured.replace(f"{before}{after}", f"{before}{dash}{after}", 1)
    return structured


def better(structured: str, plain: str, rotated: bool) -> str:
    words = WORD.findall(plain)
    if not words:
        return structured or plain
    known = set(WORD.findall(structured))
    lost = sum(word not in known for word in words) / len(words)
    if lost > MOST_LOST or (rotated and lost > 0.05):
        return PARTED.sub(r"\1\2", plain)
    return rejoin(structured, plain)
