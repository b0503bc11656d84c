"""Removes control characters and lone surrogates from extracted text, and cuts long texts into pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from knowledge.extract.base import Facts, PageText
from knowledge.model import Json, JsonValue

MAX_PIECE_CHARS = 256 << 10
MAX_FACT_CHARS = 2000
UNWANTED_CHARS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff\ufeff\ufffe\uffff]")
LINE_BREAKS = re.compile("\r\n?|[\x0c\x85\u2028\u2029]")
LINE_BREAK_CHARS = ("\r", "\x0c", "\x85", "\u2028", "\u2029")
NONCHARACTERS = ("\ufeff", "\ufffe", "\uffff")
CONTROL_BYTES = bytes([*range(9), 11, *range(14, 32), 127])
CUT_MARKS = ("\n\n", "\n", " ")
"""Preferred ends of a piece, best first."""


def clean_text(text: str) -> str:
    if any(mark in text for mark in LINE_BREAK_CHARS):
        text = LINE_BREAKS.sub("\n", text)
    if _is_unclean(text):
        text = UNWANTED_CHARS.sub("", text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return text


def _is_unclean(text: str) -> bool:
    # str.translate and `in` instead of a regular expression, because every text passes here.
    if any(mark in text for mark in NONCHARACTERS):
        return True
    try:
        data = text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return True
    return len(data.translate(None, CONTROL_BYTES)) != len(data)


def clean_facts(facts: Facts) -> Facts:
    return replace(
        facts,
        title=_clean_line(facts.title),
        author=_clean_line(facts.author),
        language=_clean_line(facts.language),
        tags=tuple(tag for tag in (_clean_line(tag) for tag in facts.tags[:100]) if tag),
        metadata=clean_json(facts.metadata),
    )


def clean_json(value: Json, depth: int = 3) -> Json:
    return {clean_text(str(key))[:100]: _clean_value(item, depth) for key, item in list(value.items())[:100]}


def _clean_value(value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, str):
        return clean_text(value)[:MAX_FACT_CHARS]
    if isinstance(value, list) and depth:
        return [_clean_value(item, depth - 1) for item in value[:100]]
    if isinstance(value, dict) and depth:
        return clean_json(value, depth - 1)
    return value if isinstance(value, int | float) else None


def _clean_line(text: str | None) -> str | None:
    """Return the text as one line, or None if nothing is left."""
    return " ".join(clean_text(text).split())[:MAX_FACT_CHARS] or None if text else None


def clean_pages(pages: Iterable[PageText]) -> Iterator[PageText]:
    for page in pages:
        text = clean_text(page.text)
        if len(text) <= MAX_PIECE_CHARS:
            yield replace(page, text=text)
            continue
        for place, piece in enumerate(cut_text(text)):
            yield replace(page, text=piece, words=page.words if place == 0 else None, outline=())


def regroup_blocks(blocks: Iterable[str], max_chars: int = MAX_PIECE_CHARS) -> Iterator[str]:
    """Join and cut blocks of any size into pieces that end at a paragraph where possible."""
    gathered = ""
    for block in blocks:
        gathered += block
        while len(gathered) > max_chars:
            end = find_cut(gathered, 0, max_chars)
            yield gathered[:end]
            gathered = gathered[end:]
    if gathered:
        yield gathered


def cut_text(text: str, max_chars: int = MAX_PIECE_CHARS) -> Iterator[str]:
    """Cut a long text between paragraphs, or between lines or words if a paragraph is longer than a piece."""
    start = 0
    while len(text) - start > max_chars:
        end = find_cut(text, start, start + max_chars)
        yield text[start:end]
        start = end
    yield text[start:]


def find_cut(text: str, start: int, end: int) -> int:
    """Return the last good cut in the second half of text[start:end]."""
    for mark in CUT_MARKS:
        place = text.rfind(mark, (start + end) // 2, end)
        if place >= 0:
            return place + len(mark)
    return end
