"""OpenDocument texts, presentations and spreadsheets (ODT, ODP, ODS), read from their XML."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from knowledge import errors
from knowledge.extract import markdown_tables, safe_xml
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.odf import text as odf_styles
from knowledge.extract.odf.text import COMMENT_PREFIX, read_attribute, render_blocks
from knowledge.extract.safe_xml import local_name, read_words
from knowledge.extract.text.plain import to_pages
from knowledge.extract.zip_archive import open_archive
from knowledge.model import Json

MAX_OBJECTS = 500
CHART_TEXT_TAGS = ("title", "subtitle")

MANIFEST, CONTENT, META, STYLES = "META-INF/manifest.xml", "content.xml", "meta.xml", "styles.xml"
METADATA_NAMES = {"creation-date": "created", "date": "modified", "subject": "subject"}

MAX_COLUMNS, MAX_REPEATS = 1000, 100
CELL_REFERENCE = re.compile(r"\[\.?([^\]]*+)(\]|\Z)")
"""Cell reference in a formula such as `of:=[.B2]*2`, or an unclosed bracket with the rest of the formula."""
VALUE_ATTRIBUTES = ("value", "string-value", "boolean-value", "time-value")


def inline_objects(root: Element, archive: zipfile.ZipFile) -> None:
    """Replace embedded formulas by their text, and charts by a text box with their titles and data."""
    frames = [element for element in root.iter() if local_name(element.tag) == "frame"]
    names = set(archive.namelist())
    for frame in frames[:MAX_OBJECTS]:
        target = next((read_attribute(child, "href") for child in frame if local_name(child.tag) == "object"), None)
        name = f"{(target or '').removeprefix('./').rstrip('/')}/content.xml"
        if name in names:
            _inline_object(frame, archive, name)


def _inline_object(frame: Element, archive: zipfile.ZipFile, name: str) -> None:
    try:
        inner = safe_xml.parse_xml(safe_xml.read_member(archive, name))
    except errors.Damaged:  # the rest of the document is still readable
        return
    if local_name(inner.tag) == "math":
        _inline_formula(frame, inner)
    elif any(local_name(element.tag) == "chart" for element in inner.iter()):
        _inline_chart(frame, inner)


def _inline_formula(frame: Element, formula: Element) -> None:
    """Replace a formula by its StarMath annotation, or by the text of its MathML."""
    source_text = next((element for element in formula.iter() if local_name(element.tag) == "annotation"), formula)
    space, tail = frame.tag.removesuffix("frame"), frame.tail
    frame.clear()
    frame.tag, frame.text, frame.tail = f"{space}span", read_words(source_text), tail


def _inline_chart(frame: Element, chart: Element) -> None:
    box = SubElement(frame, frame.tag.replace("}frame", "}text-box"))
    for element in chart.iter():
        if local_name(element.tag) in CHART_TEXT_TAGS:
            SubElement(box, "p").text = read_words(element)
        elif local_name(element.tag) == "table":
            box.append(element)


def extract(source: Source, doc_type: str) -> Extraction:
    with open_archive(source) as archive:
        names = set(archive.namelist())
        if MANIFEST in names and b"encryption-data" in safe_xml.read_member(archive, MANIFEST):
            raise errors.NeedsPassword("The document is protected with a password", filename=source.filename)
        root = safe_xml.parse_xml(safe_xml.read_member(archive, CONTENT))
        inline_objects(root, archive)
        about = _parse_part(archive, META, names)
        styles = _parse_part(archive, STYLES, names)
    body = next((element for element in root.iter() if local_name(element.tag) == "body"), root)
    if doc_type == "ods":
        sheets = [element for element in body.iter() if local_name(element.tag) == "table"]
        return Extraction(_read_facts(about, doc_type, len(sheets)), render_sheets(sheets))
    odf_styles.number_lists(body, root, styles)
    if doc_type == "odp":
        slides = [element for element in body.iter() if local_name(element.tag) == "page"]
        return Extraction(_read_facts(about, doc_type, len(slides)), _render_slides(slides))
    odf_styles.apply_styles(root)
    text = (
        *odf_styles.read_headers_or_footers(styles, "header"),
        *render_blocks(body),
        *odf_styles.read_headers_or_footers(styles, "footer"),
    )
    return Extraction(_read_facts(about, doc_type, None), to_pages(f"{block}\n\n" for block in text))


def _parse_part(archive: zipfile.ZipFile, name: str, names: set[str]) -> Element:
    """Parse an optional part, or return an empty element."""
    return safe_xml.parse_xml(safe_xml.read_member(archive, name)) if name in names else Element("none")


def _render_slides(slides: list[Element]) -> Iterator[PageText]:
    for number, slide in enumerate(slides, start=1):
        body = list(render_blocks(slide))
        if not any(block.startswith("#") for block in body):
            body.insert(0, f"## Slide {number}")
        yield PageText("\n\n".join(body), number)


def _read_facts(about: Element, doc_type: str, count: int | None) -> Facts:
    found: dict[str, str] = {}
    for element in about.iter():
        value = safe_xml.read_words(element) if len(element) == 0 else None
        if value:
            found.setdefault(local_name(element.tag), value)
    metadata: Json = {name: found[key] for key, name in METADATA_NAMES.items() if key in found}
    return Facts(
        doc_type,
        title=found.get("title"),
        author=found.get("initial-creator") or found.get("creator"),
        language=found.get("language"),
        page_count=count,
        metadata=metadata,
    )


def render_sheets(sheets: list[Element]) -> Iterator[PageText]:
    for number, sheet in enumerate(sheets, start=1):
        title = f"## {read_attribute(sheet, 'name') or f'Sheet {number}'}\n\n"
        above, rows = markdown_tables.split_at_header(_read_rows(sheet))
        title += above
        for piece in markdown_tables.format_table_pieces(rows):
            yield PageText(title + piece, number)
            title = ""
        if title:
            yield PageText(title, number)


def _read_rows(sheet: Element) -> Iterator[list[str]]:
    for row in sheet.iter():
        if local_name(row.tag) == "table-row":
            cells = _read_cells(row)
            for _ in range(_read_repeat_count(row, "number-rows-repeated") if cells else 0):
                yield cells


def _read_cells(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if local_name(cell.tag) in ("table-cell", "covered-table-cell") and len(cells) < MAX_COLUMNS:
            value = _read_value(cell)
            cells += [value] * _read_repeat_count(cell, "number-columns-repeated")
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _read_value(cell: Element) -> str:
    date = read_attribute(cell, "date-value")
    if date:
        return date.replace("T", " ")
    # A comment precedes the value in the XML; show it after the value.
    blocks = sorted(render_blocks(cell), key=lambda block: block.startswith(COMMENT_PREFIX))
    return " ".join(" ".join(blocks).split()) or _read_stored_value(cell)


def _read_stored_value(cell: Element) -> str:
    """Return the value attribute of a cell without text, or the formula if no program has calculated it yet."""
    if read_attribute(cell, "value-type"):
        return next((value for name in VALUE_ATTRIBUTES if (value := read_attribute(cell, name))), "")
    _, sign, words = (read_attribute(cell, "formula") or "").partition("=")
    return sign + CELL_REFERENCE.sub(lambda found: found[1].replace(":.", ":") if found[2] else found[0], words)


def _read_repeat_count(element: Element, name: str) -> int:
    count = read_attribute(element, name) or "1"
    return min(MAX_REPEATS, int(count)) if count.isdigit() else 1
