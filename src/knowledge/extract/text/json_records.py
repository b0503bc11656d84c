"""JSON and JSON Lines: names and values as indented lines, one block for each record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.charset import text_blocks, whole_text
from knowledge.extract.clean_text import in_pieces
from knowledge.extract.text.notebook import is_notebook, notebook
from knowledge.extract.text.plain import lines, pages
from knowledge.model import JsonValue

LARGEST = 64 << 20
"""Bytes of JSON that are understood as a whole; more is passed on as it stands."""
DEEPEST = 60


def extract(source: Source, doc_type: str) -> Extracted:
    if doc_type == "jsonl":
        return Extracted(Facts(doc_type), pages(f"{block}\n\n" for block in _records(source)))
    if source.size > LARGEST:
        return Extracted(Facts(doc_type), pages(text_blocks(source)))
    try:
        value: JsonValue = json.loads(whole_text(source).lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return Extracted(Facts(doc_type), pages(f"{block}\n\n" for block in _records(source)))
    if is_notebook(value):
        return notebook(value)
    return Extracted(Facts(doc_type), (PageText(piece) for piece in in_pieces(_blocks(value))))


def _records(source: Source) -> Iterator[str]:
    """Each line a record; a line that is none is passed on as it stands."""
    for line in lines(source):
        try:
            yield "\n".join(render(json.loads(line)))
        except (ValueError, RecursionError):
            yield line


def _blocks(value: JsonValue) -> Iterator[str]:
    """The items of a list, or the entries of an object, with room between them where they are large."""
    parts: Iterable[JsonValue] = value if isinstance(value, list) else [value]
    for part in parts:
        lines = list(render(part))
        yield "\n".join(lines) + ("\n\n" if len(lines) > 1 else "\n")


def render(value: JsonValue, indent: int = 0) -> Iterator[str]:
    """Like YAML, without its quotes: what a person would write down."""
    pad = "  " * indent
    if indent > DEEPEST:
        yield pad + json.dumps(value, ensure_ascii=False)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(f"{pad}{key}:", item, indent)
    elif isinstance(value, list):
        for item in value:
            yield from _entry(f"{pad}-", item, indent)
    else:
        yield pad + _scalar(value)


def _entry(name: str, value: JsonValue, indent: int) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield name
        yield from render(value, indent + 1)
    else:
        yield f"{name} {_scalar(value)}".rstrip()


def _scalar(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return "" if value in ([], {}) else json.dumps(value)
