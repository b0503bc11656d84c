"""Markdown as a stream of blocks: headings, paragraphs, list items, fenced code and tables. Bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

LARGEST = 16_384
"""Characters: a block that grows beyond this goes on as another one."""
LONGEST_LINE = 4_096
LONGEST_HEADING = 300
DEEPEST_INDENT = 12

FENCE = re.compile(r" {0,3}(`{3,20}|~{3,20})([^`]{0,80})")
HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]++(.*))?")
UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
DELIMITER = re.compile(r"[ \t]*+\|?+[ \t]*+:?+-++:?+[ \t]*+(?:\|[ \t]*+:?+-++:?+[ \t]*+)*+\|?+[ \t]*+")
MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|\{#[^}]*\}")


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int
    title: str
    """The words alone, without markup."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    tight: bool = False
    """Belongs to what stands before it, with no empty line between."""


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    fence: str
    """The line that opened it, with the language."""


@dataclass(frozen=True, slots=True)
class Table:
    header: str
    rows: tuple[str, ...]


Block: TypeAlias = Heading | Text | Code | Table


class Blocks:
    """Reads line by line; what is open at the end of one text may go on in the next."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._tight = False
        self._in_list = False
        self._fence: str | None = None
        self._header: str | None = None

    def feed(self, text: str) -> Iterator[Block]:
        """The blocks of a text; at its end only a fence stays open."""
        for line in text.split("\n"):
            yield from self._line(line.rstrip())
        if self._fence is None:
            yield from self._close()

    def finish(self) -> Iterator[Block]:
        yield from self._close()
        self._fence = None
        self._in_list = False

    def _line(self, line: str) -> Iterator[Block]:
        if self._fence is not None:
            yield from self._code_line(line, self._fence)
        elif self._header is not None and "|" in line:
            yield from self._keep(line)
        elif not line:
            yield from self._close()
        else:
            yield from self._outside(line)

    def _outside(self, line: str) -> Iterator[Block]:
        if self._header is not None:
            yield from self._close()
        if fence := FENCE.fullmatch(line):
            yield from self._close()
            self._fence = fence[0].strip()
        elif heading := _heading(line):
            yield from self._close()
            self._in_list = False
            yield heading
        elif self._lines and self._opens_table(line):
            yield from self._start_table()
        elif len(self._lines) == 1 and (mark := UNDERLINE.fullmatch(line)) and _can_be_heading(self._lines[0]):
            yield self._underlined(line, 1 if "=" in mark[1] else 2)
        elif RULE.fullmatch(line):
            yield from self._close()
            yield Text(line)
        else:
            yield from self._text_line(line)

    def _text_line(self, line: str) -> Iterator[Block]:
        if ITEM.match(line):
            yield from self._close()
            self._tight, self._in_list = self._in_list, True
            line = _less_indented(line)
        elif not self._lines:
            self._tight = self._in_list = self._in_list and line[0].isspace()
        for part in short_lines(line):
            yield from self._keep(part)

    def _code_line(self, line: str, fence: str) -> Iterator[Block]:
        closing = line.strip()
        if closing and closing[0] == fence[0] and set(closing) == {fence[0]} and len(closing) >= len(fence_mark(fence)):
            yield from self._close()
            self._fence = None
            return
        for part in short_lines(line):
            yield from self._keep(part)

    def _keep(self, line: str) -> Iterator[Block]:
        if self._size + len(line) > LARGEST:
            yield from self._part()
        self._lines.append(line)
        self._size += len(line) + 1

    def _part(self) -> Iterator[Block]:
        """What was kept so far, as a block; what kind of block is open does not change."""
        lines, self._lines, self._size = self._lines, [], 0
        if self._fence is not None:
            if any(lines):
                yield Code("\n".join(lines).strip("\n"), self._fence)
        elif self._header is not None:
            yield Table(self._header, tuple(lines))
        elif lines:
            yield Text("\n".join(lines), self._tight)
            self._tight = True

    def _close(self) -> Iterator[Block]:
        yield from self._part()
        self._header = None
        self._tight = False

    def _opens_table(self, line: str) -> bool:
        return "|" in line and "|" in self._lines[-1] and DELIMITER.fullmatch(line) is not None

    def _start_table(self) -> Iterator[Block]:
        header = self._lines.pop()
        yield from self._close()
        self._header, self._in_list = header, False

    def _underlined(self, underline: str, level: int) -> Heading:
        line = self._lines.pop()
        self._size = 0
        self._in_list = False
        return Heading(f"{line}\n{underline}", level, words_alone(line))


def fence_mark(fence: str) -> str:
    """The marks that close what this line opened."""
    return fence[: len(fence) - len(fence.lstrip(fence[0]))]


def short_lines(line: str) -> Iterator[str]:
    """A line in parts that are not too long, cut at spaces where there are any."""
    start = 0
    while len(line) - start > LONGEST_LINE:
        space = line.rfind(" ", start + LONGEST_LINE // 2, start + LONGEST_LINE)
        end = space if space > 0 else start + LONGEST_LINE
        yield line[start:end]
        start = end
    yield line[start:]


def words_alone(heading: str) -> str:
    return " ".join(MARKUP.sub(lambda found: found[1] or "", heading).split())


def _heading(line: str) -> Heading | None:
    if len(line) > LONGEST_HEADING or not (found := HEADING.fullmatch(line)):
        return None
    title = words_alone(_without_closing_marks(found[2] or ""))
    return Heading(line, len(found[1]), title) if title else None


def _without_closing_marks(heading: str) -> str:
    """`Prices ##` is Prices, but `C##` stays."""
    words = heading.rstrip(" \t")
    bare = words.rstrip("#")
    return bare.rstrip(" \t") if bare != words and bare.endswith((" ", "\t")) else words


def _can_be_heading(line: str) -> bool:
    return len(line) <= LONGEST_HEADING and not ITEM.match(line) and bool(words_alone(line))


def _less_indented(line: str) -> str:
    bare = line.lstrip()
    return " " * min(len(line) - len(bare), DEEPEST_INDENT) + bare
