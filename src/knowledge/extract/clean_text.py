"""Long texts leave in pieces, and every text leaves clean: no NUL, no lone surrogate, no other control characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from knowledge.extract.base import Facts, PageText
from knowledge.model import Json, JsonValue

LARGEST = 256 << 10
"""Characters in one piece."""
LONGEST_FACT = 2000
UNWANTED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff\ufeff\ufffe\uffff]")
BREAKS = re.compile("\r\n?|[\x0c\x85\u2028\u2029]")
BREAK_MARKS = ("\r", "\x0c", "\x85", "\u2028", "\u2029")
ODD_MARKS = ("\ufeff", "\ufffe", "\uffff")
CONTROLS = bytes([*range(9), 11, *range(14, 32), 127])
BORDERS = ("\n\n", "\n", " ")
"""Where a piece may end, best first."""


def clean(text: str) -> str:
    if any(mark in text for mark in BREAK_MARKS):
        text = BREAKS.sub("\n", text)
    if _is_unclean(text):
        text = UNWANTED.sub("", text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return text


def _is_unclean(text: str) -> bool:
    """Asked of every text that leaves, so by means that are faster than a pattern."""
    if any(mark in text for mark in ODD_MARKS):
        return True
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a character that takes two halves
        return True
    return len(data.translate(None, CONTROLS)) != len(data)


def clean_facts(facts: Facts) -> Facts:
    return replace(
        facts,
        title=_line(facts.title),
        author=_line(facts.author),
        language=_line(facts.language),
        tags=tuple(tag for tag in (_line(tag) for tag in facts.tags[:100]) if tag),
        metadata=clean_json(facts.metadata),
    )


def clean_json(value: Json, depth: int = 3) -> Json:
    return {clean(str(key))[:100]: _clean_value(item, depth) for key, item in list(value.items())[:100]}


def _clean_value(value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, str):
        return clean(value)[:LONGEST_FACT]
    if isinstance(value, list) and depth:
        return [_clean_value(item, depth - 1) for item in value[:100]]
    if isinstance(value, dict) and depth:
        return clean_json(value, depth - 1)
    return value if isinstance(value, int | float) else None


def _line(text: str | None) -> str | None:
    """One line without edges, or None where nothing is left."""
    return " ".join(clean(text).split())[:LONGEST_FACT] or None if text else None


def clean_pages(pages: Iterable[PageText]) -> Iterator[PageText]:
    for page in pages:
        text = clean(page.text)
        for piece in cut(text) if len(text) > LARGEST else (text,):
            yield replace(page, text=piece)


def in_pieces(blocks: Iterable[str], largest: int = LARGEST) -> Iterator[str]:
    """Gather blocks of any size into pieces that end where a paragraph does."""
    gathered = ""
    for block in blocks:
        gathered += block
        while len(gathered) > largest:
            end = border(gathered, 0, largest)
            yield gathered[:end]
            gathered = gathered[end:]
    if gathered:
        yield gathered


def cut(text: str, largest: int = LARGEST) -> Iterator[str]:
    """Cut a long text at the borders of paragraphs, or of lines or words where a paragraph is longer than a piece."""
    start = 0
    while len(text) - start > largest:
        end = border(text, start, start + largest)
        yield text[start:end]
        start = end
    yield text[start:]


def border(text: str, start: int, end: int) -> int:
    """The last good place for a cut in the second half of text[start:end]."""
    for mark in BORDERS:
        place = text.rfind(mark, (start + end) // 2, end)
        if place >= 0:
            return place + len(mark)
    return end
