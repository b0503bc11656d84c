"""reStructuredText to Markdown, as far as headings and code go; levels are told by the order of their underlines."""

from __future__ import annotations

import re
from collections.abc import Iterator

RULE = re.compile(r"([=\-~^\"'`:#*+.<>_])\1{2,}\s*$")
CODE = re.compile(r"(\s*)\.\. (?:code-block|code|sourcecode|highlight)::\s*(\w*)")
OPTION = re.compile(r"\s+:[\w-]+:")
ROLE = re.compile(r"(?<![\w:+-])([\w+-]*+):[\w:+-]{2,}+(?<=:)`([^`<]++)(<[^`>]*+>)?`")
LINK = re.compile(r"`([^`<]++)<([^`>]++)>`__?")
LITERAL = re.compile(r"``([^`]+)``")


def restructured(lines: Iterator[str]) -> Iterator[str]:
    reader = _Reader(lines)
    styles: list[str] = []
    while (line := reader.next()) is not None:
        after = reader.peek()
        if (
            (found := RULE.match(line))
            and after
            and after.strip()
            and (second := reader.peek(1))
            and RULE.match(second)
        ):
            yield _heading(after, f"{found[1]}{found[1]}", styles)
            reader.skip(2)
        elif line.strip() and not line[0].isspace() and after and (found := RULE.match(after)) and _covers(after, line):
            yield _heading(line, found[1], styles)
            reader.skip(1)
        elif found := CODE.match(line):
            yield from _code(reader, len(found[1]), found[2])
        elif line.rstrip().endswith("::") and not line.lstrip().startswith(".."):
            yield _inline(line.rstrip()[:-1]) if line.strip() != "::" else ""
            yield from _code(reader, len(line) - len(line.lstrip()), "")
        else:
            yield _inline(line)


class _Reader:
    """Lines with a look ahead."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._ahead: list[str] = []

    def next(self) -> str | None:
        return self._ahead.pop(0) if self._ahead else next(self._lines, None)

    def peek(self, offset: int = 0) -> str | None:
        while len(self._ahead) <= offset:
            line = next(self._lines, None)
            if line is None:
                return None
            self._ahead.append(line)
        return self._ahead[offset]

    def skip(self, count: int) -> None:
        for _ in range(count):
            self.next()


def _covers(rule: str, title: str) -> bool:
    return len(rule.rstrip()) >= min(len(title.rstrip()), 4)


def _heading(title: str, style: str, styles: list[str]) -> str:
    if style not in styles:
        styles.append(style)
    return f"{'#' * min(6, styles.index(style) + 1)} {_inline(title).strip()}"


def _code(reader: _Reader, indent: int, language: str) -> Iterator[str]:
    """The block that is indented deeper than what opened it."""
    block: list[str] = []
    while (line := reader.peek()) is not None and (not line.strip() or len(line) - len(line.lstrip()) > indent):
        reader.skip(1)
        if block or not OPTION.match(line):
            block.append(line)
    while block and not block[-1].strip():
        block.pop()
    while block and not block[0].strip():
        block.pop(0)
    if block:
        margin = min(len(line) - len(line.lstrip()) for line in block if line.strip())
        yield from ("", f"```{language}", *(line[margin:] for line in block), "```", "")


def _inline(line: str) -> str:
    return LITERAL.sub(r"`\1`", LINK.sub(_link, ROLE.sub(_role, line)))


def _role(role: re.Match[str]) -> str:
    before, words, target = role.groups()
    return f"{before}`{_before_target(words) if target else words}`"


def _link(link: re.Match[str]) -> str:
    return f"[{_before_target(link[1])}]({link[2]})"


def _before_target(words: str) -> str:
    return words.rstrip() or words[0]
