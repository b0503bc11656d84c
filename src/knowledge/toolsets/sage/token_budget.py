"""Choose whole sections by weight within a token budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

CountTokens: TypeAlias = Callable[[str], int]

MIN_CUT_TOKENS = 16
"""Minimum of remaining tokens for a truncated section; less is not useful to read."""
CUT_MARK = "…"
PAGE_SEPARATOR = "\n\n"
SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class CandidateSection:
    """A section of a page with its weight and token count."""

    page: str
    title: str
    heading: str | None
    text: str
    order: int
    """Position in the page."""
    weight: float
    tokens: int

    @property
    def name(self) -> str:
        return f"{self.page}#{self.heading or self.title}"

    @property
    def place(self) -> tuple[str, int]:
        return self.page, self.order


@dataclass(frozen=True, slots=True)
class ChosenSections:
    text: str
    sections: tuple[str, ...]
    """Names of complete pages and of single sections."""
    tokens: int
    cut: tuple[str, ...] = ()
    """Names of truncated sections."""
    left_out: int = 0


def choose_sections(
    parts: Sequence[CandidateSection], budget: int, count: CountTokens, separator: str = PAGE_SEPARATOR
) -> ChosenSections:
    """Choose the best whole sections that fit, then truncate the next best to fill the budget."""
    ranked = sorted(parts, key=lambda part: (-part.weight, part.page, part.order))
    taken = _take_fitting(ranked, budget, count, separator)
    text = render_sections(taken, separator)
    while taken and count(text) > budget:  # the tokens of the joined text can exceed the sum of its parts
        taken = taken[:-1]
        text = render_sections(taken, separator)
    there = {part.place for part in taken}
    left = [part for part in ranked if part.place not in there]
    cut: tuple[str, ...] = ()
    if (
        left
        and budget - count(text) >= MIN_CUT_TOKENS
        and (half := _cut_to_fit(left[0], taken, budget, count, separator))
    ):
        taken, cut, left = [*taken, half], (half.name,), left[1:]
        text = render_sections(taken, separator)
    return ChosenSections(text, name_sections(taken, parts, cut), count(text), cut, len(left))


def render_sections(parts: Sequence[CandidateSection], separator: str = PAGE_SEPARATOR) -> str:
    """Join the sections under the titles of their pages, pages in order of their best section."""
    blocks = ("\n\n".join([f"# {found[0].title}", *(part.text for part in found)]) for found in group_by_page(parts))
    return separator.join(blocks)


def group_by_page(parts: Sequence[CandidateSection]) -> list[list[CandidateSection]]:
    """Group sections by page in order of first appearance, each group in page order."""
    pages: dict[str, list[CandidateSection]] = {}
    for part in parts:
        pages.setdefault(part.page, []).append(part)
    return [sorted(found, key=lambda part: part.order) for found in pages.values()]


def name_sections(
    taken: Sequence[CandidateSection], parts: Sequence[CandidateSection], cut: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of complete pages and of single sections."""
    there = {part.place for part in taken if part.name not in cut}
    incomplete = {part.page for part in parts if part.place not in there}
    found = (part.name if part.page in incomplete else part.page for page in group_by_page(taken) for part in page)
    return tuple(dict.fromkeys(found))


def _take_fitting(
    ranked: Sequence[CandidateSection], budget: int, count: CountTokens, separator: str
) -> list[CandidateSection]:
    taken: list[CandidateSection] = []
    titled: set[str] = set()
    remaining = budget
    for part in ranked:
        cost = part.tokens + count("\n\n") + (0 if part.page in titled else count(f"{separator}# {part.title}"))
        if cost <= remaining:
            taken.append(part)
            titled.add(part.page)
            remaining -= cost
    return taken


def _cut_to_fit(
    part: CandidateSection, taken: list[CandidateSection], budget: int, count: CountTokens, separator: str
) -> CandidateSection | None:
    """Truncate a section to the paragraphs and sentences that fit the budget."""
    kept = ""
    for longer in _list_prefixes(part.text):
        half = _replace_text(part, f"{longer} {CUT_MARK}")
        if count(render_sections([*taken, half], separator)) > budget:
            break
        kept = half.text
    return _replace_text(part, kept) if kept else None


def _list_prefixes(text: str) -> Iterator[str]:
    """Yield prefixes in growing length, never a heading alone or part of a code block."""
    blocks = _split_blocks(text)
    done = ""
    for place, block in enumerate(blocks):
        if place == 0 and block.startswith("#"):
            done = block
            continue
        if not block.startswith(("```", "~~~")):
            pieces = SENTENCE_BREAK.split(block)
            for number in range(1, len(pieces)):
                yield "\n\n".join(filter(None, (done, " ".join(pieces[:number]))))
        done = "\n\n".join(filter(None, (done, block)))
        if place < len(blocks) - 1:
            yield done


def _split_blocks(text: str) -> list[str]:
    """Split text into paragraphs and whole code blocks."""
    found: list[str] = []
    fenced = False
    for block in re.split(r"\n{2,}", text):
        if fenced:
            found[-1] += f"\n\n{block}"
        else:
            found.append(block)
        fenced ^= len(re.findall(r"^ {0,3}(?:```|~~~)", block, re.MULTILINE)) % 2 == 1
    return found


def _replace_text(part: CandidateSection, text: str) -> CandidateSection:
    return CandidateSection(part.page, part.title, part.heading, text, part.order, part.weight, part.tokens)
