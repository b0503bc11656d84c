"""What the styles of an OpenDocument text say about its paragraphs: titles, hidden words, the lines at its edges."""

from __future__ import annotations

from collections.abc import (
    Iterable,
    Iterator,
)
from xml.etree.ElementTree import (
    Element,
)

from knowledge.extract.odf.text import (
    COUNTED,
    attribute,
    blocks,
)
from knowledge.extract.safe_xml import (
    local,
)

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


TITLES = {"Title", "Titel"}


def settle(root: Element) -> None:
    """Make headings of the paragraphs that are titles by their style, and take out what is hidden."""
    styles = [element for element in root.iter() if local(element.tag) == "style"]
    titles = TITLES | {attribute(style, "name") for style in styles if attribute(style, "parent-style-name") in TITLES}
    hidden = {
        attribute(style, "name") for style in styles if any(attribute(part, "display") == "none" for part in style)
    }
    for element in root.iter():
        name, style = local(element.tag), attribute(element, "style-name")
        if name == "p" and style in titles:
            element.tag = element.tag.replace("}p", "}h")
        elif name == "span" and style in hidden:
            tail = element.tail
            element.clear()
            element.tail = tail


def edges(styles: Element, name: str) -> Iterator[str]:
    """The headers or the footers of the pages, each once."""
    found = (element for element in styles.iter() if local(element.tag) in (name, f"{name}-first"))
    lines = (" ".join(" ".join(blocks(element)).split()) for element in found)
    yield from (line for line in dict.fromkeys(lines) if any(map(str.isalpha, line)))
