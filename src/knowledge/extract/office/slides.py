"""PowerPoint presentations (PPTX, PPT): one page per slide, with its tables, lists and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count, takewhile

from knowledge.extract import markdown_tables
from knowledge.extract.base import Extraction, PageText, Source
from knowledge.extract.office.document import open_office_document, read_office_facts
from knowledge.extract.office.repairs.presentations import (
    SlideTableCell,
    insert_tables,
    order_elements,
    read_ppt_tables,
)
from knowledge.model import Json, JsonValue

MAX_COLUMNS = 1000

EDGE_ROLES, NUMBER_ROLE = ("dt", "ftr"), "sldNum"


def render_elements(elements: JsonValue) -> Iterator[str]:
    """Yield the Markdown blocks of the elements of office-oxide's tree."""
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
    """Yield the rows with an empty cell for each position that a spanning cell covers."""
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
    tables = read_ppt_tables(source) if doc_type == "ppt" else []
    return Extraction(read_office_facts(source, doc_type, len(slides)), _render_pages(slides, tables))


def _render_pages(slides: list[JsonValue], tables: list[list[SlideTableCell]]) -> Iterator[PageText]:
    shown: set[str] = set()
    for number, slide in enumerate(slides, start=1):
        yield PageText(_render_slide(slide, number, shown, tables) if isinstance(slide, dict) else "", number)


def _render_slide(slide: Json, number: int, shown: set[str], tables: list[list[SlideTableCell]]) -> str:
    edges, elements = _split_off_edges(slide.get("elements"))
    body = "\n\n".join(insert_tables([*render_elements(order_elements(elements))], tables))
    if not body.lstrip().startswith("#"):
        title = slide.get("title")
        body = f"## {title if isinstance(title, str) and title.strip() else f'Slide {number}'}\n\n{body}"
    for line in render_elements(edges):
        body += "" if line in shown else f"\n\n{line}"
        shown.add(line)
    notes = "\n\n".join(render_elements(slide.get("speaker_notes")))
    return f"{body}\n\nNotes: {notes}" if notes else body


def _split_off_edges(elements: JsonValue) -> tuple[list[JsonValue], list[Json]]:
    """Split off the date and the footer, which every slide repeats, and drop the slide number."""
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
