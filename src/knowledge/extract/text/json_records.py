"""JSON and JSON Lines: keys and values as indented lines, one block per record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.charset import read_text, read_text_blocks
from knowledge.extract.clean_text import regroup_blocks
from knowledge.extract.text.notebook import extract_notebook, is_notebook
from knowledge.extract.text.plain import read_lines, to_pages
from knowledge.model import JsonValue

MAX_JSON_BYTES = 64 << 20
"""Larger files are not parsed but passed on as text."""
MAX_DEPTH = 60


def extract(source: Source, doc_type: str) -> Extraction:
    if doc_type == "jsonl":
        return Extraction(Facts(doc_type), to_pages(f"{block}\n\n" for block in _render_records(source)))
    if source.size > MAX_JSON_BYTES:
        return Extraction(Facts(doc_type), to_pages(read_text_blocks(source)))
    try:
        value: JsonValue = json.loads(read_text(source).lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return Extraction(Facts(doc_type), to_pages(f"{block}\n\n" for block in _render_records(source)))
    if is_notebook(value):
        return extract_notebook(value)
    return Extraction(Facts(doc_type), (PageText(piece) for piece in regroup_blocks(_render_blocks(value))))


def _render_records(source: Source) -> Iterator[str]:
    """Render each line as a record; a line that is not JSON is passed on unchanged."""
    for line in read_lines(source):
        try:
            yield "\n".join(render_value(json.loads(line)))
        except (ValueError, RecursionError):
            yield line


def _render_blocks(value: JsonValue) -> Iterator[str]:
    """Yield one block per item of a list, with a blank line after items of several lines."""
    parts: Iterable[JsonValue] = value if isinstance(value, list) else [value]
    for part in parts:
        lines = list(render_value(part))
        yield "\n".join(lines) + ("\n\n" if len(lines) > 1 else "\n")


def render_value(value: JsonValue, indent: int = 0) -> Iterator[str]:
    """Render a value as lines that look like YAML without quotes."""
    pad = "  " * indent
    if indent > MAX_DEPTH:
        yield pad + json.dumps(value, ensure_ascii=False)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _render_entry(f"{pad}{key}:", item, indent)
    elif isinstance(value, list):
        for item in value:
            yield from _render_entry(f"{pad}-", item, indent)
    else:
        yield pad + _render_scalar(value)


def _render_entry(name: str, value: JsonValue, indent: int) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield name
        yield from render_value(value, indent + 1)
    else:
        yield f"{name} {_render_scalar(value)}".rstrip()


def _render_scalar(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return "" if value in ([], {}) else json.dumps(value)
