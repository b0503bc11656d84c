"""Packs blocks into passages: one section and one page each, about as long as asked for, and never only a heading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tokenizers import Tokenizer

from knowledge.extract.base import PageText
from knowledge.split.blocks import Block, Blocks, Code, Heading, Table, Text, fence_mark
from knowledge.split.cutter import Cutter
from knowledge.split.passage import ROOM_ABOVE, SPECIAL_TOKENS
from knowledge.split.tables import cut_table

SMALLEST = 16
JOINT = 3
"""Tokens of the empty line between two blocks."""
LONGEST_MARKS = 40
"""Characters: a line without letters or digits, such as a rule, goes with what is near it."""


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    page: int | None
    section: tuple[str, ...]
    """The headings above it, outermost first."""


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    tokens: int
    tight: bool = False


@dataclass(slots=True)
class _Draft:
    """A passage on its way."""

    text: str = ""
    tokens: int = 0
    has_body: bool = False
    section: tuple[str, ...] = ()

    def add(self, part: _Part, *, body: bool) -> None:
        joint = "\n" if part.tight else "\n\n"
        self.tokens += part.tokens + (len(joint) if self.text else 0)
        self.text = self.text + joint + part.text if self.text else part.text
        self.has_body = self.has_body or body


class Splitter:
    """One document: feed it the pages in order, then finish it."""

    def __init__(self, tokenizer: Tokenizer, size: int = 200, window: int = 256) -> None:
        self.size = max(min(size, window - SPECIAL_TOKENS - ROOM_ABOVE), SMALLEST)
        self._cutter = Cutter(tokenizer, self.size)
        self._blocks = Blocks()
        self._path: list[tuple[int, str]] = []
        self._draft = _Draft()
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
        draft, held = self._draft, self._held
        together = self._cutter.count(held.text) + draft.tokens + JOINT if held else 0
        if draft.text and held and not draft.has_body and together <= self.size:
            held, self._draft = replace(held, text=f"{held.text}\n\n{draft.text}"), _Draft()
        self._held = held
        yield from self._close()
        if self._held:
            yield self._held
        self._held = None

    def _end_page(self) -> Iterator[Piece]:
        """A passage stands on one page; headings at the foot of it go to the next."""
        for block in self._blocks.finish():
            yield from self._take(block)
        if self._draft.has_body:
            yield from self._close()

    def _take(self, block: Block) -> Iterator[Piece]:
        match block:
            case Heading():
                yield from self._heading(block)
            case Text(text=text, tight=tight) if len(text) <= LONGEST_MARKS and not any(
                letter.isalnum() for letter in text
            ):
                yield from self._aside(Text(text, tight))
            case _:
                for part in self._parts(block):
                    yield from self._put(part, body=True)

    def _heading(self, heading: Heading) -> Iterator[Piece]:
        if self._draft.has_body:
            yield from self._close()
        while self._path and self._path[-1][0] >= heading.level:
            self._path.pop()
        self._path.append((heading.level, heading.title))
        yield from self._aside(Text(heading.text))

    def _aside(self, block: Text) -> Iterator[Piece]:
        """What is no passage by itself, unless it is very long."""
        part = self._part(block.text, block.tight)
        parts = [part] if (short := part.tokens * 2 <= self.size) else self._parts(block)
        for part in parts:
            yield from self._put(part, body=not short)

    def _parts(self, block: Text | Code | Table) -> Iterator[_Part]:
        """A block, cut where it is too long for one passage."""
        room = self._room()
        match block:
            case Text(text=text, tight=tight):
                if (tokens := self._cutter.count(text)) <= room:
                    yield _Part(text, tokens, tight)
                else:
                    yield from map(self._part, self._cutter.prose(text, room))
            case Code(text=text, fence=fence):
                frame = self._cutter.count(fence) * 2 + 2
                for part in self._cutter.code(text, max(room - frame, SMALLEST // 2)):
                    yield self._part(f"{fence}\n{part}\n{fence_mark(fence)}")
            case Table():
                yield from map(self._part, cut_table(block, self._cutter, room))

    def _part(self, text: str, tight: bool = False) -> _Part:
        return _Part(text, self._cutter.count(text), tight)

    def _room(self) -> int:
        """What a heading that waits for its text leaves of a passage, so that it need not stand alone."""
        room = self.size - self._draft.tokens - JOINT
        return room if self._draft.text and not self._draft.has_body and room * 2 >= self.size else self.size

    def _put(self, part: _Part, *, body: bool) -> Iterator[Piece]:
        draft = self._draft
        if draft.text and draft.tokens + part.tokens + JOINT > self.size:
            yield from self._close()
            draft = self._draft
        if (body and not draft.has_body) or not draft.text:
            draft.section = tuple(title for _, title in self._path)
        draft.add(part, body=body)

    def _close(self) -> Iterator[Piece]:
        draft, self._draft = self._draft, _Draft()
        if not draft.text.strip():
            return
        if self._held:
            yield self._held
        self._held = Piece(draft.text.strip("\n"), self._page, draft.section)
