"""Formats rows as Markdown tables; long tables are cut into pieces that repeat the header."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

MAX_TABLE_CHARS = 64 << 10
MAX_ROWS_ABOVE_HEADER = 8
"""Number of rows among which the header of a sheet is searched; those above it are a title or a note."""


def format_cell(value: object) -> str:
    text = " ".join(str(value).split())
    return text.replace("|", "\\|") if "|" in text else text


def format_row(values: Iterable[object]) -> str:
    return "| " + " | ".join(format_cell(value) for value in values) + " |"


def format_table(rows: Iterable[Sequence[object]]) -> str:
    """Format a small table as a whole; its first row is the header."""
    return "\n\n".join(format_table_pieces(rows, max_chars=1 << 30))


def format_table_pieces(rows: Iterable[Sequence[object]], max_chars: int = MAX_TABLE_CHARS) -> Iterator[str]:
    """Yield pieces of a table; the first non-empty row is the header, and a longer row widens the rest."""
    iterator = (values for values in rows if any(str(value).strip() for value in values))
    header = next(iterator, None)
    if header is None:
        return
    width = len(header)
    lines: list[str] = []
    size = 0
    for values in iterator:
        width = max(width, len(values))
        lines.append(format_row([*values, *[""] * (width - len(values))]))
        size += len(lines[-1])
        if size > max_chars:
            yield _format_piece(header, width, lines)
            lines, size = [], 0
    if lines or size == 0:
        yield _format_piece(header, width, lines)


def _format_piece(header: Sequence[object], width: int, lines: list[str]) -> str:
    head = format_row([*header, *[""] * (width - len(header))])
    return "\n".join([head, "|" + " --- |" * width, *lines])


def find_header_row(filled: Sequence[int]) -> int:
    """Return the index of the first row with at least half as many filled cells as the fullest row."""
    fullest = max(filled[:MAX_ROWS_ABOVE_HEADER], default=0)
    return next((place for place, count in enumerate(filled[:MAX_ROWS_ABOVE_HEADER]) if 2 * count >= fullest), 0)


def split_at_header(rows: Iterable[Sequence[str]]) -> tuple[str, Iterator[Sequence[str]]]:
    """Split a sheet into the lines of text above its header and the rows from the header on."""
    iterator = (values for values in rows if any(values))
    first = list(islice(iterator, MAX_ROWS_ABOVE_HEADER))
    place = find_header_row([sum(map(bool, values)) for values in first])
    above = "".join(f"{' '.join(filter(None, values))}\n" for values in first[:place])
    return above and f"{above}\n", chain(first[place:], iterator)
