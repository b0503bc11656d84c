"""What the styles of an OpenDocument text say about its paragraphs: titles, hidden words, the lines at its edges."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from knowledge.extract.markup_tree import local
from knowledge.extract.odf_text import attribute, blocks

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
