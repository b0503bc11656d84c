"""Repairs of DOCX: XML that office-oxide misreads is rewritten before, headings are marked in its Markdown after."""

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

TEXT_PARTS = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml$")
EDGE_PARTS = re.compile(r"word/(?:header|footer)\d*\.xml$")
MIN_EDGE_BYTES = 3 << 10
"""Smaller headers and footers hold no text box; a document can have a hundred of them."""

BOX_START, BOX_END, PARAGRAPH_END = b"<w:txbxContent>", b"</w:txbxContent>", b"</w:p>"
FALLBACK_START, FALLBACK_END = b"<mc:Fallback>", b"</mc:Fallback>"
BOX_BORDER = re.compile(b"(" + b"|".join((BOX_START, BOX_END, PARAGRAPH_END, FALLBACK_START, FALLBACK_END)) + b")")

RUBY_START, RUBY_BASE_START = b"<w:ruby>", b"<w:rubyBase>"
RUBY_END = re.compile(rb"</w:rubyBase>\s*+</w:ruby>")

GRID_SPAN = b"<w:gridSpan "
CELL_TAG = re.compile(rb'<w:tc[ >]|(</w:tc>)|<w:gridSpan w:val=["\']([1-9]\d{0,4})')
EMPTY_CELL = b"<w:tc><w:p/></w:tc>"
MAX_COLUMNS = 63
"""Limit of Word."""

STYLES, DOCUMENT = "word/styles.xml", "word/document.xml"
HEADING_NAME = re.compile(r"(?i)^(?:title|heading (\d))$")
TITLE_LEVEL = 1
TITLE_SEARCH_BYTES = 256 << 10
RUN_TEXT = re.compile(rb"<w:t(?: [^<>]*+)?>([^<]*+)</w:t>")
USED_STYLE = re.compile(rb'<w:pStyle w:val="([^"<]*+)"')
MAX_HEADINGS = 2000
MAX_STYLE_CHAIN = 20
"""Limit for w:basedOn, which can be circular."""

NESTED_TABLE_RULE = re.compile(r"<br>\|(?: --- \|)+")
EMPTY_HEADING = re.compile(r"\n#{1,6}[ \t*_]*(?=\n)")


def repair_docx(source: Source) -> Source:
    """Return the document with repaired XML parts, or the source itself if no part needs a repair."""
    with open_archive(source) as archive:
        names = [part.filename for part in archive.infolist() if _may_need_repair(part)]
        try:
            parts = {name: safe_xml.read_member(archive, name) for name in names}
        except errors.Damaged:  # office-oxide reads the intact parts or reports the damage
            return source
    changed = {name: new for name, part in parts.items() if (new := _repair_part(part)) is not part}
    return replace_members(source, changed) if changed else source


def _may_need_repair(part: zipfile.ZipInfo) -> bool:
    edge = EDGE_PARTS.match(part.filename) is not None and part.file_size > MIN_EDGE_BYTES
    return edge or TEXT_PARTS.match(part.filename) is not None


def _repair_part(part: bytes) -> bytes:
    part = unwrap_ruby(part) if RUBY_START in part else part
    part = move_text_boxes(part) if BOX_END in part else part
    return fill_spanned_cells(part) if GRID_SPAN in part else part


def unwrap_ruby(part: bytes) -> bytes:
    """Replace ruby annotations by their base text: office-oxide 0.1.15 drops everything inside `w:ruby`."""
    pieces, done = [], 0
    while (start := part.find(RUBY_START, done)) >= 0:
        base = part.find(RUBY_BASE_START, start + len(RUBY_START))
        end = RUBY_END.search(part, base + len(RUBY_BASE_START)) if base >= 0 else None
        if end is None:
            break
        pieces += [part[done:start], b"</w:r>", part[base + len(RUBY_BASE_START) : end.start()], b"<w:r>"]
        done = end.end()
    return b"".join(pieces) + part[done:] if pieces else part


@dataclass(slots=True)
class TextBoxLayer:
    """XML of the page or of one text box, and the boxes that follow its current paragraph."""

    written: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)


def move_text_boxes(part: bytes) -> bytes:
    """Move text boxes behind their paragraph: office-oxide 0.1.15 inserts their text into the sentence around them."""
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
    """Drop `mc:Fallback`, which repeats a text box for Word 2007 and older."""
    depth = 0
    for piece in pieces:
        depth += piece == FALLBACK_START
        if not depth:
            yield piece
        depth -= piece == FALLBACK_END and depth > 0


def fill_spanned_cells(part: bytes) -> bytes:
    """Add empty cells behind a cell with `w:gridSpan`: office-oxide 0.1.15 moves the cells after it to the left."""
    places = sorted(_find_spans(part))
    borders = [0, *(place for place, _ in places), len(part)]
    fillings = [*(EMPTY_CELL * count for _, count in places), b""]
    pieces = (part[start:end] for start, end in pairwise(borders))
    return b"".join(piece for pair in zip(pieces, fillings, strict=True) for piece in pair)


def _find_spans(part: bytes) -> Iterator[tuple[int, int]]:
    """Yield the end offset of each spanning cell and the number of columns it covers beyond its first."""
    open_cells: list[list[int]] = [[]]
    for tag in CELL_TAG.finditer(part):
        if tag[2]:
            open_cells[-1].append(min(MAX_COLUMNS, int(tag[2])) - 1)
        elif tag[1]:
            for count in open_cells.pop():
                yield tag.end(), count
            open_cells = open_cells or [[]]
        else:
            open_cells.append([])


def drop_nested_table_rules(text: str) -> str:
    """Remove header rules inside cells: office-oxide 0.1.15 writes a nested table as `<br>| --- |` in its cell."""
    return NESTED_TABLE_RULE.sub("", text)


def drop_empty_headings(text: str) -> str:
    """Remove headings without text: office-oxide 0.1.15 writes `# ` for an empty paragraph in a heading style."""
    return EMPTY_HEADING.sub("", text)


@dataclass(frozen=True, slots=True)
class DocxStyle:
    identifier: str
    name: str
    based_on: str
    has_outline_level: bool


def mark_headings(source: Source, text: str) -> str:
    """Mark headings by style name: office-oxide 0.1.15 knows only styles with an outline level, not `Title`."""
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
    """Read the main part, or only its beginning if a title is the only heading to find."""
    if set(levels.values()) - {TITLE_LEVEL}:
        return safe_xml.read_member(archive, DOCUMENT)
    return safe_xml.read_member(archive, DOCUMENT, TITLE_SEARCH_BYTES) if levels else b""


def _find_heading_levels(styles: Element) -> dict[bytes, int]:
    known = {style.identifier: style for style in map(_parse_style, styles)}
    levels = ((identifier.encode(), _find_heading_level(identifier, known)) for identifier in known)
    return {identifier: level for identifier, level in levels if level}


def _find_heading_level(identifier: str, known: dict[str, DocxStyle]) -> int | None:
    """Return the level by the name of the style or its ancestors, or None if one of them has an outline level."""
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
