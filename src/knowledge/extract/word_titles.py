"""Headings of a Word document that are such only by the name of their style: office-oxide goes by outline levels."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from knowledge import errors
from knowledge.extract import markup_tree
from knowledge.extract.archive import open_archive
from knowledge.extract.base import Source
from knowledge.extract.markup_tree import local

STYLES, DOCUMENT = "word/styles.xml", "word/document.xml"
NAMED = re.compile(r"(?i)^(?:title|heading (\d))$")
PARAGRAPH = re.compile(rb"<w:p[ >](?:(?!</w:p>).)*?<w:pStyle w:val=\"([^\"]+)\"(?:(?!<w:p[ >]).)*?</w:p>", re.DOTALL)
WORDS = re.compile(rb"<w:t(?: [^>]*)?>([^<]*)</w:t>")
MOST = 2000


def mark(source: Source, text: str) -> str:
    """The Markdown of the document with those lines as headings that it lacks."""
    lines = text.split("\n")
    place = 0
    for level, words in _titles(source):
        found = next((at for at in range(place, len(lines)) if _bare(lines[at]) == _bare(words)), None)
        if found is not None:
            lines[found], place = f"{'#' * level} {words}", found + 1
    return "\n".join(lines)


def _titles(source: Source) -> Iterator[tuple[int, str]]:
    try:
        with open_archive(source) as archive:
            levels = _levels(markup_tree.parse(markup_tree.member(archive, STYLES)))
            document = markup_tree.member(archive, DOCUMENT) if levels else b""
    except errors.Damaged:
        return
    if not any(b'w:pStyle w:val="%b"' % style in document for style in levels):
        return
    for _, found in zip(range(MOST), PARAGRAPH.finditer(document), strict=False):
        words = b"".join(WORDS.findall(found[0])).decode("utf-8", "replace").strip()
        if found[1] in levels and words:
            yield levels[found[1]], html.unescape(words)


def _levels(styles: Element) -> dict[bytes, int]:
    """The level of every style that is named like a heading and has no level of its own."""
    levels: dict[bytes, int] = {}
    for style in styles:
        parts = {local(part.tag): part for part in style.iter()}
        name = next(iter(parts["name"].attrib.values()), "") if "name" in parts else ""
        named = NAMED.match(name)
        if named and "outlineLvl" not in parts:
            identifier = next((value for key, value in style.items() if local(key) == "styleId"), "")
            levels[identifier.encode()] = int(named[1] or 1)
    return levels


def _bare(line: str) -> str:
    return line.replace("\\", "").strip("# *_")
