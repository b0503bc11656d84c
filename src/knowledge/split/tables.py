"""Cuts tables: every part has its own header, and a row that is too wide is cut between its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from knowledge.split.blocks import Table
from knowledge.split.cutter import Cutter

CELL = re.compile(r"(?<!\\)\|")
SPACES = re.compile(r"[ \t]{2,}")


def cut_table(table: Table, cutter: Cutter, capacity: int) -> Iterator[str]:
    """Parts of at most so many tokens, each a table."""
    names = cells(table.header)
    header = drawn(names)
    used = cutter.count(header)
    repeated = used * 2 <= capacity
    if not repeated:
        # Too wide to stand above every part: said once, and each cell brings its own column's name.
        yield from cutter.prose(" | ".join(names), capacity)
    waiting: list[str] = []
    tokens = used
    lines = [SPACES.sub(" ", row.strip()) for row in table.rows]
    for line, count in zip(lines, cutter.counts(lines), strict=True):
        added = count + 1
        if waiting and (tokens + added > capacity or not repeated):
            yield "\n".join([header, *waiting])
            waiting, tokens = [], used
        if used + added > capacity or not repeated:
            yield from _wide(names, cells(line), cutter, capacity)
        else:
            waiting.append(line)
            tokens += added
    if waiting or not table.rows:
        yield "\n".join([header, *waiting])


def _wide(names: Sequence[str], values: Sequence[str], cutter: Cutter, capacity: int) -> Iterator[str]:
    """One row as "column: value" in one line, as many in a part as fit."""
    joined, tokens = "", 0
    for place, value in enumerate(values):
        name = names[place] if place < len(names) and len(names[place]) <= 100 else ""
        pair = f"{name}: {value}" if name else value
        added = cutter.count(pair) + 1
        if joined and tokens + added > capacity:
            yield joined
            joined, tokens = "", 0
        if added > capacity:
            yield from cutter.prose(pair, capacity)
        elif value:
            joined, tokens = (f"{joined}; {pair}" if joined else pair), tokens + added
    if joined:
        yield joined


def cells(line: str) -> list[str]:
    return [SPACES.sub(" ", cell.strip()) for cell in CELL.split(line.strip().strip("|"))]


def drawn(names: Sequence[str]) -> str:
    """A header with the line that makes it one."""
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"
