"""Headings of a Word document that are such only by the name of their style: office-oxide goes by outline levels."""

from __future__ import annotations

import html
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.archive import open_archive
from knowledge.extract.base import Source
from knowledge.extract.safe_xml import local

STYLES, DOCUMENT = "word/styles.xml", "word/document.xml"
NAMED = re.compile(r"(?i)^(?:title|heading (\d))$")
KNOWN = re.compile(r"Heading\d$")
TITLE = 1
HEAD = 256 << 10
PARAGRAPH_ENDS = b"</w:p>"
WORDS = re.compile(rb"<w:t(?: [^<>]*+)?>([^<]*+)</w:t>")
USED_STYLE = re.compile(rb'<w:pStyle w:val="([^"<]*+)"')
MOST = 2000
DEEPEST = 20
"""Styles in a chain of which each is made from the next; a chain may be a ring."""


@dataclass(frozen=True, slots=True)
class Style:
    identifier: str
    name: str
    based_on: str
    outlined: bool


def mark(source: Source, text: str) -> str:
    """The Markdown of the document with those lines as headings that it lacks."""
    text, place = f"\n{text}", 0
    for level, words in _titles(source):
        for form in (words, f"**{words}**"):
            found = text.find(f"\n{form}\n", place)
            if found >= 0:
                heading = f"\n{'#' * level} {words}"
                text, place = text[:found] + heading + text[found + 1 + len(form) :], found + len(heading)
                break
    return text[1:]


def _titles(source: Source) -> Iterator[tuple[int, str]]:
    try:
        with open_archive(source) as archive:
            levels = _levels(safe_xml.parse(safe_xml.member(archive, STYLES)))
            document = _document(archive, levels)
    except errors.Damaged:
        return
    used = (found for found in USED_STYLE.finditer(document) if found[1] in levels)
    for _, found in zip(range(MOST), used, strict=False):
        paragraph = document[found.end() : document.find(PARAGRAPH_ENDS, found.end())]
        words = b"".join(WORDS.findall(paragraph)).decode("utf-8", "replace").strip()
        if words:
            yield levels[found[1]], html.unescape(words)


def _document(archive: zipfile.ZipFile, levels: dict[bytes, int]) -> bytes:
    """All of its text, or the beginning where only a title is looked for."""
    if set(levels.values()) - {TITLE}:
        return safe_xml.member(archive, DOCUMENT)
    return safe_xml.member(archive, DOCUMENT, HEAD) if levels else b""


def _levels(styles: Element) -> dict[bytes, int]:
    """The level of every style that is named like a heading, or made from one, and has no level of its own."""
    known = {style.identifier: style for style in map(_style, styles)}
    levels = ((identifier.encode(), _level(identifier, known)) for identifier in known if not KNOWN.match(identifier))
    return {identifier: level for identifier, level in levels if level}


def _level(identifier: str, known: dict[str, Style]) -> int | None:
    """What the nearest style that it is made from is named; where one of them has a level, office-oxide knows."""
    level = None
    for _ in range(DEEPEST):
        style = known.get(identifier)
        if style is None or style.outlined:
            return None if style else level
        if level is None and (named := NAMED.match(style.name)):
            level = int(named[1] or TITLE)
        identifier = style.based_on
    return level


def _style(style: Element) -> Style:
    parts = {local(part.tag): next(iter(part.attrib.values()), "") for part in style.iter()}
    identifier = next((value for key, value in style.items() if local(key) == "styleId"), "")
    return Style(identifier, parts.get("name", ""), parts.get("basedOn", ""), "outlineLvl" in parts)
