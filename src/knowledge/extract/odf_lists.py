"""Which lists of an OpenDocument count their items: their styles say so, level by level."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from knowledge.extract.markup_tree import local
from knowledge.extract.odf_text import COUNTED, attribute

Level = tuple[str | None, int]


def count(body: Element, *styles: Element) -> None:
    """Mark every list that counts with the number of its first item."""
    _mark(body, (None, 0), _starts(styles), {})


def _starts(styles: Iterable[Element]) -> dict[Level, int]:
    """The first number of every level that counts."""
    starts: dict[Level, int] = {}
    for style in (style for root in styles for style in root.iter() if local(style.tag) == "list-style"):
        for level in style:
            depth = _number(attribute(level, "level"), 1)
            if local(level.tag) == "list-level-style-number" and attribute(level, "num-format"):
                starts[attribute(style, "name"), depth] = _number(attribute(level, "start-value"), 1)
    return starts


def _mark(element: Element, above: Level, starts: dict[Level, int], reached: dict[Level, int]) -> None:
    level = above
    if local(element.tag) == "list":
        level = attribute(element, "style-name") or above[0], above[1] + 1
        if level in starts:
            goes_on = attribute(element, "continue-numbering") == "true" or attribute(element, "continue-list")
            first = reached.get(level, starts[level]) if goes_on else starts[level]
            element.set(COUNTED, str(first))
            reached[level] = first + sum(local(item.tag) == "list-item" for item in element)
    elif local(element.tag) != "list-item":
        level = None, 0
    for child in element:
        _mark(child, level, starts, reached)


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdigit() and len(text) < 9 else otherwise
