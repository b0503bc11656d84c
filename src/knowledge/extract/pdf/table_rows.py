"""Rows of PDF tables that liteparse ran together: pdfium's text, line by line, shows where one ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby

CELL = re.compile(r"(?<!\\)\|")
MARKS = str.maketrans("", "", "\\*")
"""What Markdown adds to words."""
ENDED = (".", "!", "?", ":")
PROSE = 2
"""Columns that lines with an indent may be taken for."""
FEWEST, MOST_CELLS, MOST_WORDS, MOST_LINES = 3, 60, 150, 3

Row = list[list[str]]
"""The words of each cell."""


def mended(structured: str, plain: str) -> str:
    """The page with every row of its tables in a line of its own, and no line of prose above their columns."""
    if "\n|" not in f"\n{structured}":
        return structured
    spoken = [words for line in plain.split("\n") if (words := _bare(line.split()))]
    lines: list[str] = []
    for is_table, group in groupby(structured.split("\n"), key=lambda line: line.startswith("|")):
        block = list(group)
        lines += _table(block, spoken, lines) if is_table and len(block) > 1 else block
    return "\n".join(lines)


def _table(lines: list[str], spoken: list[list[str]], above: list[str]) -> Iterator[str]:
    rows = [[cell.split() for cell in CELL.split(line)[1:-1]] for line in (lines[0], *lines[2:])]
    if len(rows[0]) == PROSE and _is_prose(rows, {word for line in spoken for word in line}):
        yield from (" ".join(word for cell in row for word in cell) for row in rows)
        return
    if len(rows) > 1 and _ends_prose(rows[0], spoken, above):
        place = next(place for place in range(len(above) - 1, -1, -1) if above[place])
        above[place] += " " + " ".join(word for cell in rows.pop(0) for word in cell)
    parted = [part for row in rows for part in _parted(row, spoken)]
    yield from (_drawn(parted[0]), lines[1], *map(_drawn, parted[1:]))


def _drawn(row: Row) -> str:
    return f"| {' | '.join(' '.join(cell) for cell in row)} |"


def _ends_prose(row: Row, spoken: list[list[str]], above: list[str]) -> bool:
    """Whether the row over the columns is the last line of the paragraph above."""
    before = next((line for line in reversed(above) if line), "")
    words = _bare(word for cell in row for word in cell)
    opened = before and not before.startswith(("#", "|", "-")) and not before.endswith(ENDED)
    return bool(opened and not all(row) and words and words[0].islower() and words in spoken)


def _is_prose(rows: list[Row], known: set[str]) -> bool:
    """Whether a word goes on from the end of one row to the start of the next: lines that were taken for cells."""
    ends = (row[-1][-1] for row in rows if row[-1])
    starts = [row[0][0] if row[0] else "" for row in rows[1:]]
    return any(end.endswith("-") and f"{end[:-1]}{start}" in known for end, start in zip(ends, starts, strict=False))


def _parted(row: Row, spoken: list[list[str]]) -> list[Row]:
    """The rows that one was made of, where lines of the page that follow each other hold just its words."""
    words = _bare(word for cell in row for word in cell)
    filled = sum(map(bool, row))
    if filled < FEWEST or len(row) > MOST_CELLS or len(words) > MOST_WORDS or len(words) < 2 * filled:
        return [row]
    for start in (place for place, line in enumerate(spoken) if line[0] == words[0]):
        for count in range(2, MOST_LINES + 1):
            lines = spoken[start : start + count]
            if sum(map(len, lines)) == len(words) and (parts := _dealt(row, lines)) and _stacked(parts, filled):
                return parts
    return [row]


def _dealt(row: Row, lines: list[list[str]]) -> list[Row] | None:
    """The words of each cell, in the line that each stands in; None where they do not add up to the lines."""
    cells = [_bare(cell) for cell in row]

    @cache
    def deal(place: int, taken: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
        if place == len(cells):
            return () if all(count == len(line) for count, line in zip(taken, lines, strict=True)) else None
        for shares in _shares(cells[place], lines, taken):
            rest = deal(place + 1, tuple(count + share for count, share in zip(taken, shares, strict=True)))
            if rest is not None:
                return (shares, *rest)
        return None

    found = deal(0, (0,) * len(lines))
    return [_line(row, found, number) for number in range(len(lines))] if found else None


def _line(row: Row, found: Sequence[tuple[int, ...]], number: int) -> Row:
    starts = [sum(shares[:number]) for shares in found]
    return [cell[start : start + shares[number]] for cell, start, shares in zip(row, starts, found, strict=True)]


def _shares(words: list[str], lines: list[list[str]], taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """How many of a cell's words each line may take next, even shares first."""
    if not lines:
        if not words:
            yield ()
        return
    even = -(-len(words) // len(lines))
    for count in sorted(range(len(words) + 1), key=lambda count: abs(count - even)):
        if lines[0][taken[0] : taken[0] + count] == words[:count]:
            yield from ((count, *rest) for rest in _shares(words[count:], lines[1:], taken[1:]))


def _stacked(parts: list[Row], filled: int) -> bool:
    """Numbers under each other are rows; words under each other may be one cell in two lines."""
    cells = list(zip(*parts, strict=True))
    numbers = sum(all(cell) and any(map(str.isdigit, "".join(cell[-1]))) for cell in cells)
    return 2 * numbers >= filled


def _bare(words: Iterator[str] | list[str]) -> list[str]:
    return [bare for word in words if (bare := word.translate(MARKS))]
