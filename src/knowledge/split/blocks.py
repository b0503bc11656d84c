"""Reads Markdown as a stream of blocks (headings, paragraphs, list items, code, tables) in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

MAX_BLOCK_CHARS = 16_384
"""A longer block is divided."""
MAX_LINE_CHARS = 4_096
MAX_HEADING_CHARS = 300
MAX_INDENT_SPACES = 12

FENCE = re.compile(r" {0,3}(`{3,20}|~{3,20})([^`]{0,80})")
ATX_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]++(.*))?")
SETEXT_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
TABLE_DELIMITER = re.compile(r"[ \t]*+\|?+[ \t]*+:?+-++:?+[ \t]*+(?:\|[ \t]*+:?+-++:?+[ \t]*+)*+\|?+[ \t]*+")
INLINE_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|\{#[^}]*\}")


@dataclass(frozen=True, slots=True)
class HeadingBlock:
    text: str
    level: int
    title: str
    """Without markup."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    text: str
    tight: bool = False
    """Follows the previous block without an empty line."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    text: str
    fence: str
    """The opening line, with the language."""


@dataclass(frozen=True, slots=True)
class TableBlock:
    header: str
    rows: tuple[str, ...]


Block: TypeAlias = HeadingBlock | TextBlock | CodeBlock | TableBlock


class BlockReader:
    """Reads line by line; a fenced block that is open at the end of a text continues in the next one."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._tight = False
        self._in_list = False
        self._fence: str | None = None
        self._header: str | None = None

    def feed(self, text: str) -> Iterator[Block]:
        """Yield the blocks of a text; at its end all blocks except fenced code are closed."""
        for line in text.split("\n"):
            yield from self._read_line(line.rstrip())
        if self._fence is None:
            yield from self._close_block()

    def finish(self) -> Iterator[Block]:
        yield from self._close_block()
        self._fence = None
        self._in_list = False

    def _read_line(self, line: str) -> Iterator[Block]:
        if self._fence is not None:
            yield from self._read_code_line(line, self._fence)
        elif self._header is not None and "|" in line:
            yield from self._keep_line(line)
        elif not line:
            yield from self._close_block()
        else:
            yield from self._read_markdown_line(line)

    def _read_markdown_line(self, line: str) -> Iterator[Block]:
        if self._header is not None:
            yield from self._close_block()
        if fence := FENCE.fullmatch(line):
            yield from self._close_block()
            self._fence = fence[0].strip()
        elif heading := _parse_heading(line):
            yield from self._close_block()
            self._in_list = False
            yield heading
        elif self._lines and self._opens_table(line):
            yield from self._start_table()
        elif len(self._lines) == 1 and (mark := SETEXT_UNDERLINE.fullmatch(line)) and _can_be_heading(self._lines[0]):
            yield self._take_setext_heading(line, 1 if "=" in mark[1] else 2)
        elif RULE.fullmatch(line):
            yield from self._close_block()
            yield TextBlock(line)
        else:
            yield from self._read_text_line(line)

    def _read_text_line(self, line: str) -> Iterator[Block]:
        if LIST_ITEM.match(line):
            yield from self._close_block()
            self._tight, self._in_list = self._in_list, True
            line = _limit_indent(line)
        elif not self._lines:
            self._tight = self._in_list = self._in_list and line[0].isspace()
        for part in split_long_line(line):
            yield from self._keep_line(part)

    def _read_code_line(self, line: str, fence: str) -> Iterator[Block]:
        closing = line.strip()
        if (
            closing
            and closing[0] == fence[0]
            and set(closing) == {fence[0]}
            and len(closing) >= len(find_closing_fence(fence))
        ):
            yield from self._close_block()
            self._fence = None
            return
        for part in split_long_line(line):
            yield from self._keep_line(part)

    def _keep_line(self, line: str) -> Iterator[Block]:
        if self._size + len(line) > MAX_BLOCK_CHARS:
            yield from self._flush_lines()
        self._lines.append(line)
        self._size += len(line) + 1

    def _flush_lines(self) -> Iterator[Block]:
        """Yield the lines read so far as a block, without closing it."""
        lines, self._lines, self._size = self._lines, [], 0
        if self._fence is not None:
            if any(lines):
                yield CodeBlock("\n".join(lines).strip("\n"), self._fence)
        elif self._header is not None:
            yield TableBlock(self._header, tuple(lines))
        elif lines:
            yield TextBlock("\n".join(lines), self._tight)
            self._tight = True

    def _close_block(self) -> Iterator[Block]:
        yield from self._flush_lines()
        self._header = None
        self._tight = False

    def _opens_table(self, line: str) -> bool:
        return "|" in line and "|" in self._lines[-1] and TABLE_DELIMITER.fullmatch(line) is not None

    def _start_table(self) -> Iterator[Block]:
        header = self._lines.pop()
        yield from self._close_block()
        self._header, self._in_list = header, False

    def _take_setext_heading(self, underline: str, level: int) -> HeadingBlock:
        line = self._lines.pop()
        self._size = 0
        self._in_list = False
        return HeadingBlock(f"{line}\n{underline}", level, strip_markup(line))


def find_closing_fence(fence: str) -> str:
    """Return the marks that close the block of this opening line."""
    return fence[: len(fence) - len(fence.lstrip(fence[0]))]


def split_long_line(line: str) -> Iterator[str]:
    """Yield parts of at most MAX_LINE_CHARS, cut at spaces if possible."""
    start = 0
    while len(line) - start > MAX_LINE_CHARS:
        space = line.rfind(" ", start + MAX_LINE_CHARS // 2, start + MAX_LINE_CHARS)
        end = space if space > 0 else start + MAX_LINE_CHARS
        yield line[start:end]
        start = end
    yield line[start:]


def strip_markup(heading: str) -> str:
    return " ".join(INLINE_MARKUP.sub(lambda found: found[1] or "", heading).split())


def _parse_heading(line: str) -> HeadingBlock | None:
    if len(line) > MAX_HEADING_CHARS or not (found := ATX_HEADING.fullmatch(line)):
        return None
    title = strip_markup(_strip_closing_hashes(found[2] or ""))
    return HeadingBlock(line, len(found[1]), title) if title else None


def _strip_closing_hashes(heading: str) -> str:
    """Remove closing hashes after a space: "Prices ##" becomes "Prices", "C##" stays."""
    words = heading.rstrip(" \t")
    bare = words.rstrip("#")
    return bare.rstrip(" \t") if bare != words and bare.endswith((" ", "\t")) else words


def _can_be_heading(line: str) -> bool:
    return len(line) <= MAX_HEADING_CHARS and not LIST_ITEM.match(line) and bool(strip_markup(line))


def _limit_indent(line: str) -> str:
    bare = line.lstrip()
    return " " * min(len(line) - len(bare), MAX_INDENT_SPACES) + bare
