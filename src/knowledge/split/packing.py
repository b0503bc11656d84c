"""Packs the blocks of one section into passages: one if they all fit, else as few as hold them, all about as long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from knowledge.split.blocks import Code, Table, Text, fence_mark
from knowledge.split.cutter import Cutter
from knowledge.split.tables import cells, cut_table, drawn

SMALLEST = 16
JOINT = 3
"""Tokens of the empty line between two blocks."""
SLACK = 1.12
"""How much longer than the others a passage may be, so that it can end where a sentence does."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A block on its way into a passage."""

    block: Text | Code | Table
    tokens: int
    body: bool = True
    """False for what is no passage by itself, such as a heading."""


@dataclass(slots=True)
class Draft:
    """A passage on its way."""

    capacity: int
    text: str = ""
    tokens: int = 0
    has_body: bool = False
    blocks: list[Waiting] = field(default_factory=list)
    """What it was begun with before it had a body: if it never has one, these go on to the next section."""

    def takes(self, tokens: int) -> bool:
        return not self.text or self.tokens + tokens + JOINT <= self.capacity

    def room(self) -> int:
        """What a heading that waits for its text leaves of a passage, so that it need not stand alone."""
        room = self.capacity - self.tokens - JOINT
        return room if self.text and not self.has_body and room * 2 >= self.capacity else self.capacity

    def add(self, text: str, tokens: int, waiting: Waiting) -> None:
        joint = "\n" if isinstance(waiting.block, Text) and waiting.block.tight else "\n\n"
        self.tokens += tokens + (len(joint) if self.text else 0)
        self.text = self.text + joint + text if self.text else text
        self.has_body = self.has_body or waiting.body
        if not self.has_body:
            self.blocks.append(waiting)


def weigh(block: Text | Code | Table, cutter: Cutter) -> int:
    """How many tokens the block has as it will stand there."""
    match block:
        case Text(text=text):
            return cutter.count(text)
        case Code(text=text, fence=fence):
            return cutter.count(text) + _frame(fence, cutter)
        case Table(header=header, rows=rows):
            return sum(cutter.counts([drawn(cells(header)), *rows])) + len(rows)


def total(run: Sequence[Waiting]) -> int:
    return sum(waiting.tokens + JOINT for waiting in run) - JOINT


def pack(run: Sequence[Waiting], cutter: Cutter, largest: int) -> Iterator[Draft]:
    """Passages of at most so many tokens. One without a body holds long headings, or what follows the last text."""
    draft = Draft(capacity(total(_up_to_its_end(run)), largest))
    for waiting in run:
        for text, tokens in _parts(waiting, cutter, draft.room()):
            if not draft.takes(tokens):
                yield draft
                draft = Draft(draft.capacity)
            draft.add(text, tokens, waiting)
    if draft.text.strip():
        yield draft


def _up_to_its_end(run: Sequence[Waiting]) -> Sequence[Waiting]:
    """Without what only follows the last text, such as a rule: for that nothing is cut in two."""
    last = max((place for place, waiting in enumerate(run) if waiting.body), default=len(run))
    return run[: last + 1]


def capacity(tokens: int, largest: int) -> int:
    """How long a passage may be, so that all of them are about as long."""
    if tokens <= largest:
        return largest
    passages = -(-tokens // largest)
    return min(int(tokens / passages * SLACK) + JOINT, largest)


def _parts(waiting: Waiting, cutter: Cutter, room: int) -> Iterator[tuple[str, int]]:
    """A block with its tokens, cut where it is too long for one passage."""
    match waiting.block:
        case Text(text=text):
            if waiting.tokens <= room:
                yield text, waiting.tokens
                return
            texts = cutter.prose(text, room)
        case Code(text=text, fence=fence):
            inside = cutter.code(text, max(room - _frame(fence, cutter), SMALLEST // 2))
            texts = [f"{fence}\n{part}\n{fence_mark(fence)}" for part in inside]
        case Table() as table:
            texts = list(cut_table(table, cutter, room))
    yield from zip(texts, cutter.counts(texts), strict=True)


def _frame(fence: str, cutter: Cutter) -> int:
    return cutter.count(fence) * 2 + 2
