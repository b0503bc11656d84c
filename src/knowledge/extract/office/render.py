"""The tree that office-oxide gives for a document, as Markdown: what a reader sees, without fonts and colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count, takewhile

from knowledge.extract import tables
from knowledge.model import Json, JsonValue

MOST_COLUMNS = 1000


def render(elements: JsonValue) -> Iterator[str]:
    """Each element as one block."""
    for element in elements if isinstance(elements, list) else []:
        if isinstance(element, dict):
            yield from (block for block in _block(element) if block.strip())


def _block(element: Json) -> Iterator[str]:
    kind = element.get("type")
    if kind == "heading":
        level = element.get("level")
        yield f"{'#' * (level if isinstance(level, int) else 2)} {_line(element)}" if _line(element) else ""
    elif kind == "paragraph":
        yield _inline(element.get("content")).strip()
    elif kind == "list":
        yield "\n".join(_items(element, 0))
    elif kind == "table":
        yield tables.table(_rows(element))
    else:
        yield from render(element.get("content"))


def _line(element: Json) -> str:
    return " ".join(_inline(element.get("content")).split())


def _inline(content: JsonValue) -> str:
    parts = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict):
            text = part.get("text")
            parts.append("\n" if part.get("type") == "line_break" else text if isinstance(text, str) else "")
    return "".join(parts)


def _items(element: Json, depth: int) -> Iterator[str]:
    items = element.get("items")
    for number, item in enumerate(items if isinstance(items, list) else [], start=1):
        if not isinstance(item, dict):
            continue
        mark = f"{number}." if element.get("ordered") else "-"
        yield f"{'  ' * depth}{mark} {' '.join(' '.join(render(item.get('content'))).split())}"
        nested = item.get("nested") or item.get("children")
        if isinstance(nested, dict):
            yield from _items(nested, depth + 1)


def _rows(element: Json) -> Iterator[list[str]]:
    """Each row with an empty cell wherever a wide or a tall one covers its place."""
    rows = element.get("rows")
    covered: Counter[int] = Counter()
    for row in rows if isinstance(rows, list) else []:
        cells = row.get("cells") if isinstance(row, dict) else None
        line: list[str] = []
        for cell in cells if isinstance(cells, list) else []:
            if isinstance(cell, dict):
                line += _covered(covered, len(line))
                wide, tall = _span(cell, "col_span"), _span(cell, "row_span")
                covered.update(dict.fromkeys(range(len(line), len(line) + wide), tall - 1))
                line += [" ".join(render(cell.get("content"))), *[""] * (wide - 1)]
        yield line + _covered(covered, len(line))


def _covered(covered: Counter[int], column: int) -> list[str]:
    places = list(takewhile(lambda place: covered[place] > 0, count(column)))
    covered.subtract(places)
    return [""] * len(places)


def _span(cell: Json, name: str) -> int:
    span = cell.get(name)
    return min(MOST_COLUMNS, span) if isinstance(span, int) and span > 0 else 1
