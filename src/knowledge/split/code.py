"""Splits source code between its definitions: as many whole ones as fit into a chunk, with the lines of each chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from knowledge.extract.base import CodePart, PageText
from knowledge.split.blocks import find_closing_fence
from knowledge.split.cutter import TextCutter
from knowledge.split.passage import SplitPassage

FindCapacity: TypeAlias = Callable[[tuple[str, ...]], int]
"""Returns the tokens that a chunk below these headings may have."""
MAX_NAMES_CHARS = 100
"""Characters of the heading that names several definitions."""
NAME_SEPARATOR = ", "


def split_code(page: PageText, cutter: TextCutter, count_tokens_left: FindCapacity) -> Iterator[SplitPassage]:
    """Yield the chunks of a page with an outline, in the order of its lines."""
    fence, *lines = page.text.split("\n")[:-1]
    start = page.outline[0].first_line

    def find_capacity(section: tuple[str, ...]) -> int:
        return count_tokens_left(section) - cutter.count_fence_tokens(fence)

    def find_rows(part: CodePart) -> Sequence[str]:
        return lines[part.first_line - start : part.last_line - start + 1]

    texts = ["\n".join(find_rows(part)).strip("\n") for part in page.outline]
    for part in _join_parts(page.outline, cutter.count_tokens_of_each(texts), find_capacity):
        for text, first in _cut_rows(find_rows(part), cutter, find_capacity(part.section)):
            lines_of_text = part.first_line + first, part.first_line + first + text.count("\n")
            fenced = f"{fence}\n{text}\n{find_closing_fence(fence)}"
            yield SplitPassage(fenced, page.number, part.section, lines_of_text)


def _join_parts(parts: Sequence[CodePart], tokens: Sequence[int], find_capacity: FindCapacity) -> Iterator[CodePart]:
    """Join neighbouring parts that fit into one chunk: a question seldom has the words of one short function alone."""
    held: CodePart | None = None
    size = 0
    for part, added in zip(parts, tokens, strict=True):
        joined = part if held is None else _join_pair(held, part)
        if held is not None and size + added + 1 > find_capacity(joined.section):
            yield held
            joined, size = part, 0
        held, size = joined, size + added + 1
    if held is not None:
        yield held


def _join_pair(before: CodePart, after: CodePart) -> CodePart:
    """Join two parts; their section is what they have in common, and the names below it."""
    shared = 0
    while shared < min(len(before.section), len(after.section)) and before.section[shared] == after.section[shared]:
        shared += 1
    below = [part.section[shared] for part in (before, after) if len(part.section) > shared]
    names = NAME_SEPARATOR.join(dict.fromkeys(name for joined in below for name in joined.split(NAME_SEPARATOR)))
    if len(names) > MAX_NAMES_CHARS:
        names = names[:MAX_NAMES_CHARS].rpartition(NAME_SEPARATOR)[0] or names[:MAX_NAMES_CHARS]
    section = (*before.section[:shared], names) if names else before.section[:shared]
    return CodePart(before.first_line, after.last_line, section)


def _cut_rows(rows: Sequence[str], cutter: TextCutter, max_tokens: int) -> Iterator[tuple[str, int]]:
    """Yield parts that are as long as possible, each with the number of rows before it.

    The first part has the signature and as much of the body as fits: parts of similar length are found less often.
    """
    whole = "\n".join(rows)
    at = len(whole) - len(whole.lstrip("\n"))
    text = whole.strip("\n")
    if not text:
        return
    for piece in cutter.cut_code(text, max_tokens):
        at = max(whole.find(piece, at), at)
        yield piece, whole.count("\n", 0, at)
        at += len(piece)
