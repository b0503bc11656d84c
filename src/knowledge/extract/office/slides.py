"""Presentations: each slide a page, with its tables, lists and notes; tables of PPT are read from its records."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

import olefile

from knowledge.extract import markdown_tables
from knowledge.extract.base import Extraction, PageText, Source
from knowledge.extract.office.document import open_office_document, read_office_facts
from knowledge.model import Json, JsonValue

MAX_COLUMNS = 1000

EDGE_ROLES, NUMBER_ROLE = ("dt", "ftr"), "sldNum"
TITLE_HEIGHT_EMU = 1_000_000
"""In units of which 914,400 are an inch, from the top; slides are 5.6 or 7.5 inches high."""

STREAM = "PowerPoint Document"
GROUP_RECORD, SHAPE_RECORD, ANCHOR_RECORD, TEXT_BOX_RECORD = 0xF003, 0xF004, 0xF00F, 0xF00D
UTF16_TEXT_RECORD, LATIN1_TEXT_RECORD = 0x0FA0, 0x0FA8
PROPERTY_RECORDS, TABLE_PROPERTY = (0xF121, 0xF122), 0x039F
CONTAINER_VERSION = 0x0F


def render_elements(elements: JsonValue) -> Iterator[str]:
    """Each element as one block."""
    for element in elements if isinstance(elements, list) else []:
        if isinstance(element, dict):
            yield from (block for block in _render_element(element) if block.strip())


def _render_element(element: Json) -> Iterator[str]:
    kind = element.get("type")
    if kind == "heading":
        level = element.get("level")
        yield (
            f"{'#' * (level if isinstance(level, int) else 2)} {_render_line(element)}" if _render_line(element) else ""
        )
    elif kind == "paragraph":
        yield _render_inline(element.get("content")).strip()
    elif kind == "list":
        yield "\n".join(_render_items(element, 0))
    elif kind == "table":
        yield markdown_tables.format_table(_render_rows(element))
    else:
        yield from render_elements(element.get("content"))


def _render_line(element: Json) -> str:
    return " ".join(_render_inline(element.get("content")).split())


def _render_inline(content: JsonValue) -> str:
    parts = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict):
            text = part.get("text")
            parts.append("\n" if part.get("type") == "line_break" else text if isinstance(text, str) else "")
    return "".join(parts)


def _render_items(element: Json, depth: int) -> Iterator[str]:
    items = element.get("items")
    for number, item in enumerate(items if isinstance(items, list) else [], start=1):
        if not isinstance(item, dict):
            continue
        mark = f"{number}." if element.get("ordered") else "-"
        yield f"{'  ' * depth}{mark} {' '.join(' '.join(render_elements(item.get('content'))).split())}"
        nested = item.get("nested") or item.get("children")
        if isinstance(nested, dict):
            yield from _render_items(nested, depth + 1)


def _render_rows(element: Json) -> Iterator[list[str]]:
    """Each row with an empty cell wherever a wide or a tall one covers its place."""
    rows = element.get("rows")
    covered: Counter[int] = Counter()
    for row in rows if isinstance(rows, list) else []:
        cells = row.get("cells") if isinstance(row, dict) else None
        line: list[str] = []
        for cell in cells if isinstance(cells, list) else []:
            if isinstance(cell, dict):
                line += _fill_covered_cells(covered, len(line))
                wide, tall = _read_span(cell, "col_span"), _read_span(cell, "row_span")
                covered.update(dict.fromkeys(range(len(line), len(line) + wide), tall - 1))
                line += [" ".join(render_elements(cell.get("content"))), *[""] * (wide - 1)]
        yield line + _fill_covered_cells(covered, len(line))


def _fill_covered_cells(covered: Counter[int], column: int) -> list[str]:
    places = list(takewhile(lambda place: covered[place] > 0, count(column)))
    covered.subtract(places)
    return [""] * len(places)


def _read_span(cell: Json, name: str) -> int:
    span = cell.get(name)
    return min(MAX_COLUMNS, span) if isinstance(span, int) and span > 0 else 1


def extract(source: Source, doc_type: str) -> Extraction:
    with open_office_document(source, doc_type) as document:
        tree: Json = document.to_ir()
    sections = tree.get("sections")
    slides = sections if isinstance(sections, list) else []
    found = read_ppt_tables(source) if doc_type == "ppt" else []
    return Extraction(read_office_facts(source, doc_type, len(slides)), _render_pages(slides, found))


def _render_pages(slides: list[JsonValue], found: list[list[SlideTableCell]]) -> Iterator[PageText]:
    shown: set[str] = set()
    for number, slide in enumerate(slides, start=1):
        yield PageText(_render_slide(slide, number, shown, found) if isinstance(slide, dict) else "", number)


def _render_slide(slide: Json, number: int, shown: set[str], found: list[list[SlideTableCell]]) -> str:
    edges, elements = _split_off_edges(slide.get("elements"))
    body = "\n\n".join(insert_tables([*render_elements(_order_elements(elements))], found))
    if not body.lstrip().startswith("#"):
        title = slide.get("title")
        body = f"## {title if isinstance(title, str) and title.strip() else f'Slide {number}'}\n\n{body}"
    for line in render_elements(edges):
        body += "" if line in shown else f"\n\n{line}"
        shown.add(line)
    notes = "\n\n".join(render_elements(slide.get("speaker_notes")))
    return f"{body}\n\nNotes: {notes}" if notes else body


def _split_off_edges(elements: JsonValue) -> tuple[list[JsonValue], list[Json]]:
    """The date and the footer, which stand on every slide and are read on the first; and the rest, without numbers."""
    edges: list[JsonValue] = []
    rest = []
    for element in elements if isinstance(elements, list) else []:
        if isinstance(element, dict):
            role = _find_role(element)
            if role in EDGE_ROLES:
                edges.append(element)
            elif role != NUMBER_ROLE:
                rest.append(element)
    return edges, rest


def _find_role(element: Json) -> JsonValue:
    content = element.get("content")
    inner = content[0] if element.get("type") == "text_box" and isinstance(content, list) and content else element
    return inner.get("placeholder_role") if isinstance(inner, dict) else None


def _order_elements(elements: list[Json]) -> list[JsonValue]:
    """office-oxide goes by height, and puts last what has none of its own because it stands where the layout says.

    That is the body of the slide: it belongs below the title, and above all but what stands beside the title.
    """
    return [*sorted(elements, key=_rank_element)]


def _rank_element(element: Json) -> int:
    height = element.get("y_emu")
    if element.get("type") == "heading" or (isinstance(height, int) and height < TITLE_HEIGHT_EMU):
        return 0
    return 2 if isinstance(height, int) else 1


@dataclass(frozen=True, slots=True)
class SlideTableCell:
    left: int
    top: int
    words: str

    @property
    def paragraphs(self) -> list[str]:
        return [line for line in map(_join_spaces, self.words.split("\r")) if line]


class PptRecord:
    """One record of the stream: what it is, how many properties it has, and where its body lies."""

    __slots__ = ("count", "end", "holds", "kind", "start")

    def __init__(self, data: bytes, place: int, border: int) -> None:
        flags, self.kind, length = struct.unpack_from("<HHI", data, place)
        self.holds, self.count = flags & 0x0F == CONTAINER_VERSION, flags >> 4
        self.start, self.end = place + 8, min(border, place + 8 + length)


def read_ppt_tables(source: Source) -> list[list[SlideTableCell]]:
    """The cells of every table, in the order in which they are kept."""
    try:
        with olefile.OleFileIO(source.read()) as container:
            data = container.openstream(STREAM).read()
        return list(_find_tables(data))
    except (OSError, ValueError, IndexError, KeyError, TypeError, struct.error):
        return []


def insert_tables(blocks: Sequence[str], found: Sequence[list[SlideTableCell]]) -> list[str]:
    """The blocks of a slide; where they are the cells of a table, one after the other, the table stands instead."""
    result, plain = list(blocks), [_join_spaces(block) for block in blocks]
    for cells in found:
        wanted = [line for cell in cells for line in cell.paragraphs]
        places = range(len(plain) - len(wanted) + 1) if wanted else ()
        place = next((place for place in places if plain[place : place + len(wanted)] == wanted), None)
        if place is not None:
            table = markdown_tables.format_table(_arrange_rows(cells))
            result[place : place + len(wanted)] = [table]
            plain[place : place + len(wanted)] = [table]
    return result


def _arrange_rows(cells: list[SlideTableCell]) -> Iterator[list[str]]:
    columns = sorted({cell.left for cell in cells})
    for top in sorted({cell.top for cell in cells}):
        row = {cell.left: " ".join(cell.paragraphs) for cell in cells if cell.top == top}
        yield [row.get(column, "") for column in columns]


def _find_tables(data: bytes) -> Iterator[list[SlideTableCell]]:
    waiting = [(0, len(data))]
    while waiting:
        inner = [record for record in _read_records(data, *waiting.pop()) if record.holds]
        for record in inner:
            if record.kind == GROUP_RECORD and _is_table(data, record):
                yield [
                    cell for shape in _read_records(data, record.start, record.end) for cell in _read_cells(data, shape)
                ]
        waiting += [(record.start, record.end) for record in reversed(inner)]


def _read_records(data: bytes, place: int, border: int) -> Iterator[PptRecord]:
    while place + 8 <= border:
        record = PptRecord(data, place, border)
        yield record
        place = record.end


def _is_table(data: bytes, group: PptRecord) -> bool:
    head = next(_read_records(data, group.start, group.end), None)
    return head is not None and any(
        struct.unpack_from("<H", data, record.start + 6 * number)[0] & 0x3FFF == TABLE_PROPERTY
        for record in _read_records(data, head.start, head.end)
        if record.kind in PROPERTY_RECORDS
        for number in range(record.count)
    )


def _read_cells(data: bytes, shape: PptRecord) -> Iterator[SlideTableCell]:
    """A shape with an extent; those without are the lines between the cells."""
    parts = (
        {record.kind: record for record in _read_records(data, shape.start, shape.end)}
        if shape.kind == SHAPE_RECORD
        else {}
    )
    if ANCHOR_RECORD in parts:
        left, top, right, bottom = struct.unpack_from("<4i", data, parts[ANCHOR_RECORD].start)
        if right > left and bottom > top:
            words = parts.get(TEXT_BOX_RECORD)
            yield SlideTableCell(left, top, _read_text(data, words) if words else "")


def _read_text(data: bytes, box: PptRecord) -> str:
    encodings = {UTF16_TEXT_RECORD: "utf-16-le", LATIN1_TEXT_RECORD: "latin-1"}
    atoms = (record for record in _read_records(data, box.start, box.end) if record.kind in encodings)
    return "\r".join(data[atom.start : atom.end].decode(encodings[atom.kind], "replace") for atom in atoms)


def _join_spaces(words: str) -> str:
    return " ".join(words.split())
