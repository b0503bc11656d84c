"""Rows as a Markdown table, in pieces that each repeat the header, so that every passage makes sense on its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

LARGEST = 64 << 10
"""Characters in one piece of a table."""


def cell(value: object) -> str:
    text = " ".join(str(value).split())
    return text.replace("|", "\\|") if "|" in text else text


def row(values: Iterable[object]) -> str:
    return "| " + " | ".join(cell(value) for value in values) + " |"


def table(rows: Iterable[Sequence[object]]) -> str:
    """A whole table at once, for those that are small; its first row is the header."""
    return "\n\n".join(pieces(rows, largest=1 << 30))


def pieces(rows: Iterable[Sequence[object]], largest: int = LARGEST) -> Iterator[str]:
    """The header is the first row with something in it; a row that is longer than the header widens what follows."""
    iterator = (values for values in rows if any(str(value).strip() for value in values))
    header = next(iterator, None)
    if header is None:
        return
    width = len(header)
    lines: list[str] = []
    size = 0
    for values in iterator:
        width = max(width, len(values))
        lines.append(row([*values, *[""] * (width - len(values))]))
        size += len(lines[-1])
        if size > largest:
            yield _piece(header, width, lines)
            lines, size = [], 0
    if lines or size == 0:
        piece = _piece(header, width, lines)
        yield piece


def _piece(header: Sequence[object], width: int, lines: list[str]) -> str:
    head = row([*header, *[""] * (width - len(header))])
    return "\n".join([head, "|" + " --- |" * width, *lines])
