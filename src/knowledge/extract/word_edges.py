"""Headers and footers of a Word document, which office-oxide gives with every section: they are read once."""

from __future__ import annotations

from itertools import takewhile

SECTION, BLOCK = "\n\n---\n\n", "\n\n"
MOST = 4
"""Blocks of a header or a footer."""


def edges_once(text: str) -> str:
    """Without what each section has at its top like the first one, and at its bottom like the last one."""
    if SECTION not in text:
        return text
    sections = [section.strip("\n").split(BLOCK) for section in text.split(SECTION)]
    first, last = sections[0], sections[-1]
    for number, blocks in enumerate(sections):
        top = _same(blocks, first) if number else 0
        bottom = _same(blocks[:top:-1], last[::-1]) if blocks is not last else 0
        sections[number] = blocks[top : len(blocks) - bottom]
    return SECTION.join(BLOCK.join(blocks) for blocks in sections if blocks)


def _same(blocks: list[str], others: list[str]) -> int:
    """How many blocks from the beginning on are the same; a heading or a table is no edge of a page."""
    pairs = zip(blocks[:MOST], others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] and not pair[0].startswith(("#", "|")), pairs))
