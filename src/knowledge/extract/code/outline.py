"""Divides the lines of a source file between its definitions, so that no line is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from knowledge.extract.base import CodePart
from knowledge.extract.code.definitions import Definition, parse_source

CLOSING_ROW = re.compile(r"[^\w/]*+(?:(?:endif|end|else|fi|done)\b)?+[^\w/]*+(?:/[/*].*+)?+")
"""A row without words of its own; the comment after a closing brace often names what it closes."""
MAX_NAMES = 8
WHOLE_ROWS = 12
"""A class with at most this many rows stays whole."""


def make_outline(text: str, doc_type: str) -> tuple[CodePart, ...]:
    """Return the parts of a source file: one per definition, or a single one for all if it has no known structure."""
    lines = text.split("\n")
    tree = parse_source(text, doc_type)
    if tree is None or not tree.definitions:
        return (CodePart(1, len(lines), ()),)
    scope = (tree.package,) if tree.package else ()
    parts = _divide(0, len(lines) - 1, scope, tree.definitions)
    return tuple(_join_small(list(parts), lines))


def _divide(first: int, last: int, section: tuple[str, ...], inside: Sequence[Definition]) -> Iterator[CodePart]:
    """Divide rows between the definitions inside of them; rows between definitions are parts of their own."""
    at = first
    for each in sorted(inside, key=lambda definition: (definition.first, -definition.last)):
        begin = max(each.first, at)
        if each.last < begin:
            continue
        if at < begin:
            yield CodePart(at + 1, begin, section)
        name = (*section, each.name)[:MAX_NAMES]
        if each.inner and each.last - begin >= WHOLE_ROWS:
            yield from _divide(begin, each.last, name, each.inner)
        else:
            yield CodePart(begin + 1, each.last + 1, name)
        at = each.last + 1
    if at <= last:
        yield CodePart(at + 1, last + 1, section)


def _join_small(parts: Sequence[CodePart], lines: Sequence[str]) -> Iterator[CodePart]:
    """Join parts that only close others, such as a brace or `end`, to the part before them."""
    held: CodePart | None = None
    for part in parts:
        rows = lines[part.first_line - 1 : part.last_line]
        if held is not None and all(CLOSING_ROW.fullmatch(row) for row in rows):
            held = CodePart(held.first_line, part.last_line, held.section)
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held
