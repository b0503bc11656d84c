"""Cuts a document into passages: one section and one page each, whole where it fits, and never only a heading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from tokenizers import Tokenizer

from knowledge.extract.base import PageText
from knowledge.split.blocks import Block, Blocks, Code, Heading, Table, Text
from knowledge.split.cutter import Cutter
from knowledge.split.packing import JOINT, SMALLEST, Draft, Waiting, pack, weigh
from knowledge.split.passage import ROOM_ABOVE, SPECIAL_TOKENS, WINDOW, above

LONGEST_MARKS = 40
"""Characters: a line without letters or digits, such as a rule, goes with what is near it."""
AHEAD = 8
"""So many passages of one section are looked at together; the first half of a longer one goes before it has ended."""


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    page: int | None
    section: tuple[str, ...]
    """The headings above it, outermost first."""


class Run:
    """The blocks of one section that wait, with what is asked about them for each new one kept up to date."""

    def __init__(self, blocks: Iterable[Waiting] = ()) -> None:
        self.blocks: list[Waiting] = []
        self.tokens = -JOINT
        self.bodies = 0
        for waiting in blocks:
            self.add(waiting)

    def add(self, waiting: Waiting) -> None:
        self.blocks.append(waiting)
        self.tokens += waiting.tokens + JOINT
        self.bodies += waiting.body

    def cut(self, tokens: int) -> tuple[Run, list[Waiting]]:
        """The first blocks, and the last ones, as many as have at most so many tokens."""
        first, left = 0, self.tokens
        while left > tokens:
            left -= self.blocks[first].tokens + JOINT
            first += 1
        return Run(self.blocks[:first]), self.blocks[first:]


class Splitter:
    """One document: feed it the pages in order, then finish it."""

    def __init__(self, tokenizer: Tokenizer, title: str = "", window: int = WINDOW) -> None:
        self._cutter, self._blocks = Cutter(tokenizer), Blocks()
        self._title, self._window = title, min(window, WINDOW) - SPECIAL_TOKENS
        self._largest = lru_cache(maxsize=1)(self._room_below)
        self._path: list[tuple[int, str]] = []
        self._run = Run()
        self._held: Piece | None = None
        self._page: int | None = None

    def feed(self, page: PageText) -> Iterator[Piece]:
        if page.number != self._page:
            yield from self._end_page()
            self._page = page.number
        for block in self._blocks.feed(page.text):
            yield from self._take(block)

    def finish(self) -> Iterator[Piece]:
        yield from self._end_page()
        self._join_to_held()
        for draft in pack(self._run.blocks, self._cutter, self._largest(self._section)):
            yield from self._emit(draft)
        if self._held:
            yield self._held
        self._run, self._held = Run(), None

    def _join_to_held(self) -> None:
        """Headings that nothing follows stand under what went before them."""
        held, last = self._held, list(pack(self._run.blocks, self._cutter, self._window))
        if held is None or len(last) != 1 or last[0].has_body:
            return
        if self._cutter.count(held.text) + last[0].tokens + JOINT <= self._largest(held.section):
            self._held, self._run = replace(held, text=f"{held.text}\n\n{last[0].text}"), Run()

    def _end_page(self) -> Iterator[Piece]:
        """A passage stands on one page; headings at the foot of it go to the next."""
        for block in self._blocks.finish():
            yield from self._take(block)
        if self._run.bodies:
            yield from self._close()

    def _take(self, block: Block) -> Iterator[Piece]:
        match block:
            case Heading():
                yield from self._heading(block)
            case Text(text=text) if len(text) <= LONGEST_MARKS and not any(letter.isalnum() for letter in text):
                self._aside(block)
            case _:
                yield from self._wait(block)

    def _heading(self, heading: Heading) -> Iterator[Piece]:
        if self._run.bodies:
            yield from self._close()
        while self._path and self._path[-1][0] >= heading.level:
            self._path.pop()
        self._path.append((heading.level, heading.title))
        self._aside(Text(heading.text))

    def _aside(self, block: Text) -> None:
        """What is no passage by itself, unless it is very long."""
        tokens = self._cutter.count(block.text)
        self._run.add(Waiting(block, tokens, body=tokens * 2 > self._window - ROOM_ABOVE))

    def _wait(self, block: Text | Code | Table) -> Iterator[Piece]:
        self._run.add(Waiting(block, weigh(block, self._cutter)))
        if self._run.tokens > AHEAD * self._window:
            self._run, later = self._run.cut(AHEAD * self._window // 2)
            yield from self._close()
            for waiting in later:
                self._run.add(waiting)

    @property
    def _section(self) -> tuple[str, ...]:
        return tuple(title for _, title in self._path)

    def _room_below(self, section: tuple[str, ...]) -> int:
        """What the title and the headings leave of the window."""
        return max(self._window - min(self._cutter.count(above((self._title, *section))), ROOM_ABOVE), SMALLEST)

    def _close(self) -> Iterator[Piece]:
        """The section, as far as it waits here; a rule at its end that fits nowhere goes on to what follows."""
        drafts = list(pack(self._run.blocks, self._cutter, self._largest(self._section)))
        self._run = Run(drafts.pop().blocks if drafts and not drafts[-1].has_body else ())
        for draft in drafts:
            yield from self._emit(draft)

    def _emit(self, draft: Draft) -> Iterator[Piece]:
        if self._held:
            yield self._held
        self._held = Piece(draft.text.strip("\n"), self._page, self._section)
