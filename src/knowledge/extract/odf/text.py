"""The text of an OpenDocument as blocks of Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from knowledge.extract import tables
from knowledge.extract.safe_xml import local

SILENT = {
    "annotation",
    "annotation-end",
    "tracked-changes",
    "sequence-decls",
    "forms",
    "settings",
    "desc",
    "title",
    "page-number",
}
TITLES = {"title", "subtitle"}
BOXES = {"text-box", "custom-shape"}
COMMENT = "**Comment ("
COUNTED = "counted"
"""The mark of a list whose items have numbers: the first of them."""
ROW_GROUPS = {"table-rows", "table-header-rows", "table-row-group"}


def blocks(element: Element) -> Iterator[str]:
    for child in element:
        yield from (block for block in _block(child) if block.strip())


def _block(element: Element) -> Iterator[str]:
    name = local(element.tag)
    if name == "annotation":
        yield _comment(element)
    elif name in SILENT:
        return
    elif name == "h":
        level = attribute(element, "outline-level")
        yield f"{'#' * min(6, int(level) if level and level.isdigit() else 1)} {inline(element).strip()}"
        yield from _anchored(element)
    elif name == "p":
        yield inline(element).strip()
        yield from _anchored(element)
    elif name == "list":
        yield "\n".join(_items(element, 0))
    elif name == "table":
        yield tables.table(rows(element))
    elif name == "notes":
        notes = " ".join(block for block in blocks(element) if block)
        yield f"Notes: {notes}" if notes else ""
    elif name == "frame" and attribute(element, "class") in TITLES:
        yield "## " + " ".join(" ".join(blocks(element)).split())
    else:
        yield from blocks(element)


def _anchored(element: Element) -> Iterator[str]:
    """Text boxes, shapes with words and comments that are anchored in a paragraph follow it."""
    for child in element.iter():
        if local(child.tag) in BOXES:
            yield from blocks(child)
        elif local(child.tag) == "annotation":
            yield _comment(child)


def _comment(element: Element) -> str:
    author = next((child.text for child in element if local(child.tag) == "creator" and child.text), "")
    words = " ".join(" ".join(blocks(element)).split())
    return f"{COMMENT}{author}):** {words}" if words else ""


def inline(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        parts += [_within(child), child.tail or ""]
    return "".join(parts)


def _within(element: Element) -> str:
    name = local(element.tag)
    if name == "s":
        count = attribute(element, "c")
        return " " * min(100, int(count) if count and count.isdigit() else 1)
    if name in ("tab", "line-break"):
        return "\t" if name == "tab" else "\n"
    if name == "note":
        note = next((child for child in element if local(child.tag) == "note-body"), element)
        return f" [{' '.join(blocks(note))}]"
    if name in SILENT or name == "frame" or name in BOXES:
        return ""
    return inline(element)


def _items(element: Element, depth: int) -> Iterator[str]:
    number = int(element.get(COUNTED) or 0)
    for item in element:
        if local(item.tag) not in ("list-item", "list-header"):
            continue
        mark = f"{number}." if number else "-"
        for child in item:
            if local(child.tag) == "list":
                yield from _items(child, depth + 1)
            elif local(child.tag) == "h":  # a chapter that is numbered like a list
                yield f"\n{' '.join(_block(child))}\n"
            elif text := " ".join(" ".join(_block(child)).split()):
                yield f"{'  ' * depth}{mark} {text}"
        number += bool(number and local(item.tag) == "list-item")


def rows(element: Element) -> Iterator[list[str]]:
    """The rows of a table, without those of a table that stands in one of its cells."""
    for child in element:
        if local(child.tag) in ROW_GROUPS:
            yield from rows(child)
        elif local(child.tag) == "table-row":
            yield [" ".join(_cell(cell).split()) for cell in child if local(cell.tag).endswith("table-cell")]


def _cell(cell: Element) -> str:
    inner = (row for table in cell if local(table.tag) == "table" for row in rows(table))
    words = (block for child in cell if local(child.tag) != "table" for block in _block(child))
    return " ".join([*words, *(" ".join(row) for row in inner)])


def attribute(element: Element, name: str) -> str | None:
    """An attribute by its name alone; no two namespaces of OpenDocument use one name for different things."""
    return next((value for key, value in element.items() if local(key) == name), None)
