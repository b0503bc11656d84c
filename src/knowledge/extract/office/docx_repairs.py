"""Repairs Word documents where office-oxide would misplace or lose text, and finds headings by style name."""

from __future__ import annotations

import html
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from xml.etree.ElementTree import Element

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.base import Source
from knowledge.extract.safe_xml import local_name
from knowledge.extract.zip_archive import open_archive, replace_members

BOX_START, BOX_END, PARAGRAPH_END = b"<w:txbxContent>", b"</w:txbxContent>", b"</w:p>"
FALLBACK_START, FALLBACK_END = b"<mc:Fallback>", b"</mc:Fallback>"
"""The same once more, for programs that do not know the newer kind of box."""
BOX_BORDER = re.compile(b"(" + b"|".join((BOX_START, BOX_END, PARAGRAPH_END, FALLBACK_START, FALLBACK_END)) + b")")

TEXT_PARTS = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml$")
EDGE_PARTS, MIN_EDGE_BYTES = re.compile(r"word/(?:header|footer)\d*\.xml$"), 3 << 10
"""A document may have a hundred of these; without a box they are smaller than so many bytes."""
RUBY_START, RUBY_BASE_START, RUBY_END = b"<w:ruby>", b"<w:rubyBase>", re.compile(rb"</w:rubyBase>\s*+</w:ruby>")
"""Words with their sound in small letters above them, in a run; the words are runs themselves."""
GRID_SPAN = b"<w:gridSpan "
CELL_TAG = re.compile(rb'<w:tc[ >]|(</w:tc>)|<w:gridSpan w:val=["\']([1-9]\d{0,4})')
EMPTY_CELL, MAX_COLUMNS = b"<w:tc><w:p/></w:tc>", 63
"""The columns that Word allows."""

STYLES, DOCUMENT = "word/styles.xml", "word/document.xml"
HEADING_NAME = re.compile(r"(?i)^(?:title|heading (\d))$")
TITLE_LEVEL = 1
HEAD_BYTES = 256 << 10
PARAGRAPH_END = b"</w:p>"
RUN_TEXT = re.compile(rb"<w:t(?: [^<>]*+)?>([^<]*+)</w:t>")
USED_STYLE = re.compile(rb'<w:pStyle w:val="([^"<]*+)"')
MAX_HEADINGS = 2000
MAX_STYLE_CHAIN = 20
"""Styles in a chain of which each is made from the next; a chain may be a ring."""


@dataclass(slots=True)
class TextBoxLayer:
    """What has been written so far, of the page or of one box, and the boxes that wait for its paragraph to end."""

    written: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)


def move_text_boxes(part: bytes) -> bytes:
    """One part of a document, with nothing left out but what stands there twice."""
    layers = [TextBoxLayer()]
    for piece in _drop_fallbacks(BOX_BORDER.split(part)):
        if piece == BOX_START:
            layers.append(TextBoxLayer())
        elif piece == BOX_END and len(layers) > 1:
            inner = layers.pop()
            layers[-1].pending += inner.written + inner.pending
        elif piece == PARAGRAPH_END:
            layers[-1].written += [piece, *layers[-1].pending]
            layers[-1].pending = []
        else:
            layers[-1].written.append(piece)
    return b"".join(piece for layer in layers for piece in (*layer.written, *layer.pending))


def _drop_fallbacks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    depth = 0
    for piece in pieces:
        depth += piece == FALLBACK_START
        if not depth:
            yield piece
        depth -= piece == FALLBACK_END and depth > 0


def repair_docx(source: Source) -> Source:
    """The document in other words, or as it is where that changes nothing."""
    with open_archive(source) as archive:
        names = [part.filename for part in archive.infolist() if _may_need_repair(part)]
        try:
            parts = {name: safe_xml.read_member(archive, name) for name in names}
        except errors.Damaged:  # office-oxide reads what can be read, or says why not
            return source
    changed = {name: new for name, part in parts.items() if (new := _repair_part(part)) is not part}
    return replace_members(source, changed) if changed else source


def _may_need_repair(part: zipfile.ZipInfo) -> bool:
    edge = EDGE_PARTS.match(part.filename) is not None and part.file_size > MIN_EDGE_BYTES
    return edge or TEXT_PARTS.match(part.filename) is not None


def _repair_part(part: bytes) -> bytes:
    if RUBY_START in part:
        part = _unwrap_ruby(part)
    part = move_text_boxes(part) if BOX_END in part else part
    return fill_spanned_cells(part) if GRID_SPAN in part else part


def _unwrap_ruby(part: bytes) -> bytes:
    pieces, done = [], 0
    while (start := part.find(RUBY_START, done)) >= 0:
        base = part.find(RUBY_BASE_START, start + len(RUBY_START))
        end = RUBY_END.search(part, base + len(RUBY_BASE_START)) if base >= 0 else None
        if end is None:
            break
        pieces += [part[done:start], b"</w:r>", part[base + len(RUBY_BASE_START) : end.start()], b"<w:r>"]
        done = end.end()
    return b"".join(pieces) + part[done:] if pieces else part


def fill_spanned_cells(part: bytes) -> bytes:
    """With empty cells behind one that is as wide as several, so that those after it stay in their columns."""
    places = sorted(_find_spans(part))
    borders = [0, *(place for place, _ in places), len(part)]
    fillings = [*(EMPTY_CELL * count for _, count in places), b""]
    pieces = (part[start:end] for start, end in pairwise(borders))
    return b"".join(piece for pair in zip(pieces, fillings, strict=True) for piece in pair)


def _find_spans(part: bytes) -> Iterator[tuple[int, int]]:
    """Where a wide cell ends, and how many others it stands for; one look at the part, however its cells are nested."""
    around: list[list[int]] = [[]]
    for border in CELL_TAG.finditer(part):
        if border[2]:
            around[-1].append(min(MAX_COLUMNS, int(border[2])) - 1)
        elif border[1]:
            for count in around.pop():
                yield border.end(), count
            around = around or [[]]
        else:
            around.append([])


@dataclass(frozen=True, slots=True)
class DocxStyle:
    identifier: str
    name: str
    based_on: str
    has_outline_level: bool


def mark_headings(source: Source, text: str) -> str:
    """The Markdown of the document with those lines as headings that it lacks."""
    text, place = f"\n{text}", 0
    for level, words in _find_headings(source):
        for form in (words, f"**{words}**"):
            found = text.find(f"\n{form}\n", place)
            if found >= 0:
                heading = f"\n{'#' * level} {words}"
                text, place = text[:found] + heading + text[found + 1 + len(form) :], found + len(heading)
                break
    return text[1:]


def _find_headings(source: Source) -> Iterator[tuple[int, str]]:
    try:
        with open_archive(source) as archive:
            levels = _find_heading_levels(safe_xml.parse_xml(safe_xml.read_member(archive, STYLES)))
            document = _read_document(archive, levels)
    except errors.Damaged:
        return
    used = (found for found in USED_STYLE.finditer(document) if found[1] in levels)
    for _, found in zip(range(MAX_HEADINGS), used, strict=False):
        paragraph = document[found.end() : document.find(PARAGRAPH_END, found.end())]
        words = b"".join(RUN_TEXT.findall(paragraph)).decode("utf-8", "replace").strip()
        if words:
            yield levels[found[1]], html.unescape(words)


def _read_document(archive: zipfile.ZipFile, levels: dict[bytes, int]) -> bytes:
    """All of its text, or the beginning where only a title is looked for."""
    if set(levels.values()) - {TITLE_LEVEL}:
        return safe_xml.read_member(archive, DOCUMENT)
    return safe_xml.read_member(archive, DOCUMENT, HEAD_BYTES) if levels else b""


def _find_heading_levels(styles: Element) -> dict[bytes, int]:
    """The level of every style that is named like a heading, or made from one, and has no level of its own."""
    known = {style.identifier: style for style in map(_parse_style, styles)}
    levels = ((identifier.encode(), _find_heading_level(identifier, known)) for identifier in known)
    return {identifier: level for identifier, level in levels if level}


def _find_heading_level(identifier: str, known: dict[str, DocxStyle]) -> int | None:
    """What the nearest style that it is made from is named; where one of them has a level, office-oxide knows."""
    level = None
    for _ in range(MAX_STYLE_CHAIN):
        style = known.get(identifier)
        if style is None or style.has_outline_level:
            return None if style else level
        if level is None and (named := HEADING_NAME.match(style.name)):
            level = int(named[1] or TITLE_LEVEL)
        identifier = style.based_on
    return level


def _parse_style(style: Element) -> DocxStyle:
    parts = {local_name(part.tag): next(iter(part.attrib.values()), "") for part in style.iter()}
    identifier = next((value for key, value in style.items() if local_name(key) == "styleId"), "")
    return DocxStyle(identifier, parts.get("name", ""), parts.get("basedOn", ""), "outlineLvl" in parts)
