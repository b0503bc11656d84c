"""Renders the text of an OpenDocument as Markdown blocks, using its paragraph and list styles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from knowledge.extract import markdown_tables
from knowledge.extract.safe_xml import local_name

SKIPPED_TAGS = {
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
TITLE_CLASSES = {"title", "subtitle"}
BOX_TAGS = {"text-box", "custom-shape"}
COMMENT_PREFIX = "**Comment ("
FIRST_NUMBER_ATTRIBUTE = "counted"
"""Attribute that number_lists adds to numbered lists: the number of the first item."""
ROW_GROUP_TAGS = {"table-rows", "table-header-rows", "table-row-group"}

ListLevel = tuple[str | None, int]

TITLE_STYLES = {"Title", "Titel"}


def render_blocks(element: Element) -> Iterator[str]:
    for child in element:
        yield from (block for block in _render_block(child) if block.strip())


def _render_block(element: Element) -> Iterator[str]:
    name = local_name(element.tag)
    if name == "annotation":
        yield _render_comment(element)
    elif name in SKIPPED_TAGS:
        return
    elif name == "h":
        level = read_attribute(element, "outline-level")
        yield f"{'#' * min(6, int(level) if level and level.isdigit() else 1)} {render_inline(element).strip()}"
        yield from _render_anchored(element)
    elif name == "p":
        yield render_inline(element).strip()
        yield from _render_anchored(element)
    elif name == "list":
        yield "\n".join(_render_items(element, 0))
    elif name == "table":
        yield markdown_tables.format_table(read_rows(element))
    elif name == "notes":
        notes = " ".join(block for block in render_blocks(element) if block)
        yield f"Notes: {notes}" if notes else ""
    elif name == "frame" and read_attribute(element, "class") in TITLE_CLASSES:
        yield "## " + " ".join(" ".join(render_blocks(element)).split())
    else:
        yield from render_blocks(element)


def _render_anchored(element: Element) -> Iterator[str]:
    """Render the text boxes, shapes and comments that are anchored in a paragraph, to follow it."""
    for child in element.iter():
        if local_name(child.tag) in BOX_TAGS:
            yield from render_blocks(child)
        elif local_name(child.tag) == "annotation":
            yield _render_comment(child)


def _render_comment(element: Element) -> str:
    author = next((child.text for child in element if local_name(child.tag) == "creator" and child.text), "")
    words = " ".join(" ".join(render_blocks(element)).split())
    return f"{COMMENT_PREFIX}{author}):** {words}" if words else ""


def render_inline(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        parts += [_render_inline_child(child), child.tail or ""]
    return "".join(parts)


def _render_inline_child(element: Element) -> str:
    name = local_name(element.tag)
    if name == "s":
        count = read_attribute(element, "c")
        return " " * min(100, int(count) if count and count.isdigit() else 1)
    if name in ("tab", "line-break"):
        return "\t" if name == "tab" else "\n"
    if name == "note":
        note = next((child for child in element if local_name(child.tag) == "note-body"), element)
        return f" [{' '.join(render_blocks(note))}]"
    if name in SKIPPED_TAGS or name == "frame" or name in BOX_TAGS:
        return ""
    return render_inline(element)


def _render_items(element: Element, depth: int) -> Iterator[str]:
    number = int(element.get(FIRST_NUMBER_ATTRIBUTE) or 0)
    for item in element:
        if local_name(item.tag) not in ("list-item", "list-header"):
            continue
        mark = f"{number}." if number else "-"
        for child in item:
            if local_name(child.tag) == "list":
                yield from _render_items(child, depth + 1)
            elif local_name(child.tag) == "h":  # a numbered heading
                yield f"\n{' '.join(_render_block(child))}\n"
            elif text := " ".join(" ".join(_render_block(child)).split()):
                yield f"{'  ' * depth}{mark} {text}"
        number += bool(number and local_name(item.tag) == "list-item")


def read_rows(element: Element) -> Iterator[list[str]]:
    """Yield the rows of a table, without those of nested tables."""
    for child in element:
        if local_name(child.tag) in ROW_GROUP_TAGS:
            yield from read_rows(child)
        elif local_name(child.tag) == "table-row":
            yield [
                " ".join(_render_cell(cell).split()) for cell in child if local_name(cell.tag).endswith("table-cell")
            ]


def _render_cell(cell: Element) -> str:
    inner = (row for table in cell if local_name(table.tag) == "table" for row in read_rows(table))
    words = (block for child in cell if local_name(child.tag) != "table" for block in _render_block(child))
    return " ".join([*words, *(" ".join(row) for row in inner)])


def read_attribute(element: Element, name: str) -> str | None:
    """Return an attribute by its local name, which is unambiguous in OpenDocument."""
    return next((value for key, value in element.items() if local_name(key) == name), None)


def number_lists(body: Element, *styles: Element) -> None:
    """Set FIRST_NUMBER_ATTRIBUTE on every numbered list."""
    _mark_lists(body, (None, 0), _find_list_starts(styles), {})


def _find_list_starts(styles: Iterable[Element]) -> dict[ListLevel, int]:
    """Return the start number of each numbered list level."""
    starts: dict[ListLevel, int] = {}
    for style in (style for root in styles for style in root.iter() if local_name(style.tag) == "list-style"):
        for level in style:
            depth = _to_int(read_attribute(level, "level"), 1)
            if local_name(level.tag) == "list-level-style-number" and read_attribute(level, "num-format"):
                starts[read_attribute(style, "name"), depth] = _to_int(read_attribute(level, "start-value"), 1)
    return starts


def _mark_lists(
    element: Element, above: ListLevel, starts: dict[ListLevel, int], reached: dict[ListLevel, int]
) -> None:
    level = above
    if local_name(element.tag) == "list":
        level = read_attribute(element, "style-name") or above[0], above[1] + 1
        if level in starts:
            continues = read_attribute(element, "continue-numbering") == "true" or read_attribute(
                element, "continue-list"
            )
            first = reached.get(level, starts[level]) if continues else starts[level]
            element.set(FIRST_NUMBER_ATTRIBUTE, str(first))
            reached[level] = first + sum(local_name(item.tag) == "list-item" for item in element)
    elif local_name(element.tag) != "list-item":
        level = None, 0
    for child in element:
        _mark_lists(child, level, starts, reached)


def _to_int(text: str | None, default: int) -> int:
    return int(text) if text and text.isdigit() and len(text) < 9 else default


def apply_styles(root: Element) -> None:
    """Turn paragraphs in a title style into headings, and remove hidden text."""
    styles = [element for element in root.iter() if local_name(element.tag) == "style"]
    titles = TITLE_STYLES | {
        read_attribute(style, "name") for style in styles if read_attribute(style, "parent-style-name") in TITLE_STYLES
    }
    hidden = {
        read_attribute(style, "name")
        for style in styles
        if any(read_attribute(part, "display") == "none" for part in style)
    }
    for element in root.iter():
        name, style = local_name(element.tag), read_attribute(element, "style-name")
        if name == "p" and style in titles:
            element.tag = element.tag.replace("}p", "}h")
        elif name == "span" and style in hidden:
            tail = element.tail
            element.clear()
            element.tail = tail


def read_headers_or_footers(styles: Element, name: str) -> Iterator[str]:
    """Yield the distinct page headers or footers."""
    found = (element for element in styles.iter() if local_name(element.tag) in (name, f"{name}-first"))
    lines = (" ".join(" ".join(render_blocks(element)).split()) for element in found)
    yield from (line for line in dict.fromkeys(lines) if any(map(str.isalpha, line)))
