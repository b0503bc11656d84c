"""Finds links and images of Markdown, in time that is in proportion to the text, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    start: int
    end: int
    words: str
    """What stands between the square brackets."""


def find_links(text: str, opening: str = "[") -> Iterator[Link]:
    """Each `[words](address)`, from left to right.

    A regular expression would look for the same closing bracket from every opening one.
    """
    start = text.find(opening)
    while start >= 0:
        inside = start + len(opening)
        closing = text.find("]", inside)
        if closing < 0:
            return
        if not text.startswith("(", closing + 1):
            start = text.find(opening, closing)  # what opens before shares this closing bracket
            continue
        end = text.find(")", closing + 2) + 1
        if not end:
            return
        yield Link(start, end, text[inside:closing])
        start = text.find(opening, end)


def replace_images(text: str) -> str:
    """The text with the description of each `![image](address)` in its place."""
    pieces, done = [], 0
    for image in find_links(text, "!["):
        pieces += [text[done : image.start], image.words]
        done = image.end
    return "".join(pieces) + text[done:]
