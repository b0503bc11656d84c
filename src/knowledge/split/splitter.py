"""Splits a document into chunks: whole sections where they fit, and no chunk that is only a heading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tokenizers import Tokenizer

from knowledge.extract.base import PageText
from knowledge.split.blocks import (
    Block,
    BlockReader,
    CodeBlock,
    HeadingBlock,
    TableBlock,
    TextBlock,
    find_closing_fence,
)
from knowledge.split.code import split_code
from knowledge.split.cutter import JOINT_TOKENS, MIN_CHUNK_TOKENS, TextCutter
from knowledge.split.passage import (
    RESERVED_HEADING_TOKENS,
    SPECIAL_TOKENS,
    WINDOW_TOKENS,
    SplitPassage,
    render_headings,
)

MAX_RULE_CHARS = 40
"""A shorter line without letters and digits, such as a rule, is no chunk by itself."""
LOOKAHEAD_CHUNKS = 8
"""Chunks of a section that are balanced together; of a longer section the first half is emitted before its end."""

LENGTH_SLACK = 1.12
"""Factor by which a chunk may exceed the mean of its section, to end with a sentence."""

CELL_BORDER = re.compile(r"(?<!\\)\|")
SPACES = re.compile(r"[ \t]{2,}")


class SectionBlocks:
    """The pending blocks of one section, with running totals."""

    def __init__(self, blocks: Iterable[PendingBlock] = ()) -> None:
        self.blocks: list[PendingBlock] = []
        self.tokens = -JOINT_TOKENS
        self.body_count = 0
        for waiting in blocks:
            self.add(waiting)

    def add(self, waiting: PendingBlock) -> None:
        self.blocks.append(waiting)
        self.tokens += waiting.tokens + JOINT_TOKENS
        self.body_count += waiting.is_body

    def split_off_tail(self, tokens: int) -> tuple[SectionBlocks, list[PendingBlock]]:
        """Return the first blocks, and the last ones with at most this many tokens."""
        first, left = 0, self.tokens
        while left > tokens:
            left -= self.blocks[first].tokens + JOINT_TOKENS
            first += 1
        return SectionBlocks(self.blocks[:first]), self.blocks[first:]


class Splitter:
    """Splits one document: `feed` takes its pages in order, `finish` returns the rest."""

    def __init__(self, tokenizer: Tokenizer, title: str = "", window: int = WINDOW_TOKENS) -> None:
        self._cutter, self._blocks = TextCutter(tokenizer), BlockReader()
        self._title, self._window = title, min(window, WINDOW_TOKENS) - SPECIAL_TOKENS
        self._max_tokens = lru_cache(maxsize=1)(self._count_tokens_left)
        self._heading_path: list[tuple[int, str]] = []
        self._pending = SectionBlocks()
        self._held_chunk: SplitPassage | None = None
        self._page: int | None = None

    def feed(self, page: PageText) -> Iterator[SplitPassage]:
        if page.number != self._page:
            yield from self._end_page()
            self._page = page.number
        if page.outline:
            yield from self.finish()
            yield from split_code(page, self._cutter, self._count_tokens_left)
            return
        for block in self._blocks.feed(page.text):
            yield from self._add_block(block)

    def finish(self) -> Iterator[SplitPassage]:
        yield from self._end_page()
        self._join_to_held()
        for draft in pack_chunks(self._pending.blocks, self._cutter, self._max_tokens(self._section)):
            yield from self._emit_chunk(draft)
        if self._held_chunk:
            yield self._held_chunk
        self._pending, self._held_chunk = SectionBlocks(), None

    def _join_to_held(self) -> None:
        """Append headings at the end of the document to the last chunk."""
        held, last = self._held_chunk, list(pack_chunks(self._pending.blocks, self._cutter, self._window))
        if held is None or len(last) != 1 or last[0].has_body:
            return
        if self._cutter.count_tokens(held.text) + last[0].tokens + JOINT_TOKENS <= self._max_tokens(held.section):
            self._held_chunk, self._pending = replace(held, text=f"{held.text}\n\n{last[0].text}"), SectionBlocks()

    def _end_page(self) -> Iterator[SplitPassage]:
        """Emit the chunks of a page; headings at its bottom are kept for the next page."""
        for block in self._blocks.finish():
            yield from self._add_block(block)
        if self._pending.body_count:
            yield from self._close_section()

    def _add_block(self, block: Block) -> Iterator[SplitPassage]:
        match block:
            case HeadingBlock():
                yield from self._add_heading(block)
            case TextBlock(text=text) if len(text) <= MAX_RULE_CHARS and not any(letter.isalnum() for letter in text):
                self._add_aside(block)
            case _:
                yield from self._add_body(block)

    def _add_heading(self, heading: HeadingBlock) -> Iterator[SplitPassage]:
        if self._pending.body_count:
            yield from self._close_section()
        while self._heading_path and self._heading_path[-1][0] >= heading.level:
            self._heading_path.pop()
        self._heading_path.append((heading.level, heading.title))
        self._add_aside(TextBlock(heading.text))

    def _add_aside(self, block: TextBlock) -> None:
        """Add a heading or a rule, which is no chunk by itself unless it is very long."""
        tokens = self._cutter.count_tokens(block.text)
        self._pending.add(PendingBlock(block, tokens, is_body=tokens * 2 > self._window - RESERVED_HEADING_TOKENS))

    def _add_body(self, block: TextBlock | CodeBlock | TableBlock) -> Iterator[SplitPassage]:
        self._pending.add(PendingBlock(block, count_block_tokens(block, self._cutter)))
        if self._pending.tokens > LOOKAHEAD_CHUNKS * self._window:
            self._pending, later = self._pending.split_off_tail(LOOKAHEAD_CHUNKS * self._window // 2)
            yield from self._close_section()
            for waiting in later:
                self._pending.add(waiting)

    @property
    def _section(self) -> tuple[str, ...]:
        return tuple(title for _, title in self._heading_path)

    def _count_tokens_left(self, section: tuple[str, ...]) -> int:
        """Return the tokens that title and headings leave of the window."""
        return max(
            self._window
            - min(self._cutter.count_tokens(render_headings((self._title, *section))), RESERVED_HEADING_TOKENS),
            MIN_CHUNK_TOKENS,
        )

    def _close_section(self) -> Iterator[SplitPassage]:
        """Emit the pending blocks; a heading or rule at the end that fits nowhere is kept for the next section."""
        drafts = list(pack_chunks(self._pending.blocks, self._cutter, self._max_tokens(self._section)))
        self._pending = SectionBlocks(drafts.pop().blocks if drafts and not drafts[-1].has_body else ())
        for draft in drafts:
            yield from self._emit_chunk(draft)

    def _emit_chunk(self, draft: ChunkDraft) -> Iterator[SplitPassage]:
        if self._held_chunk:
            yield self._held_chunk
        self._held_chunk = SplitPassage(draft.text.strip("\n"), self._page, self._section)


def cut_table(table: TableBlock, cutter: TextCutter, capacity: int) -> Iterator[str]:
    """Yield parts of a table of at most `capacity` tokens, each with the header."""
    names = split_cells(table.header)
    header = format_header(names)
    used = cutter.count_tokens(header)
    repeated = used * 2 <= capacity
    if not repeated:
        # too long to repeat: it comes once, and each cell is written with the name of its column
        yield from cutter.cut_prose(" | ".join(names), capacity)
    waiting: list[str] = []
    tokens = used
    lines = [SPACES.sub(" ", row.strip()) for row in table.rows]
    for line, count in zip(lines, cutter.count_tokens_of_each(lines), strict=True):
        added = count + 1
        if waiting and (tokens + added > capacity or not repeated):
            yield "\n".join([header, *waiting])
            waiting, tokens = [], used
        if used + added > capacity or not repeated:
            yield from _cut_wide_row(names, split_cells(line), cutter, capacity)
        else:
            waiting.append(line)
            tokens += added
    if waiting or not table.rows:
        yield "\n".join([header, *waiting])


def _cut_wide_row(names: Sequence[str], values: Sequence[str], cutter: TextCutter, capacity: int) -> Iterator[str]:
    """Yield one row as "column: value" pairs, as many in a part as fit."""
    joined, tokens = "", 0
    for place, value in enumerate(values):
        name = names[place] if place < len(names) and len(names[place]) <= 100 else ""
        pair = f"{name}: {value}" if name else value
        added = cutter.count_tokens(pair) + 1
        if joined and tokens + added > capacity:
            yield joined
            joined, tokens = "", 0
        if added > capacity:
            yield from cutter.cut_prose(pair, capacity)
        elif value:
            joined, tokens = (f"{joined}; {pair}" if joined else pair), tokens + added
    if joined:
        yield joined


def split_cells(line: str) -> list[str]:
    return [SPACES.sub(" ", cell.strip()) for cell in CELL_BORDER.split(line.strip().strip("|"))]


def format_header(names: Sequence[str]) -> str:
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


@dataclass(frozen=True, slots=True)
class PendingBlock:
    block: TextBlock | CodeBlock | TableBlock
    tokens: int
    is_body: bool = True
    """False for a heading or a rule."""


@dataclass(slots=True)
class ChunkDraft:
    capacity: int
    text: str = ""
    tokens: int = 0
    has_body: bool = False
    blocks: list[PendingBlock] = field(default_factory=list)
    """Blocks before the first body; without a body they are moved to the next section."""

    def fits(self, tokens: int) -> bool:
        return not self.text or self.tokens + tokens + JOINT_TOKENS <= self.capacity

    def find_block_capacity(self) -> int:
        """Return the capacity for the next block: less after a heading, so that a part of the block fits below it."""
        left = self.capacity - self.tokens - JOINT_TOKENS
        return left if self.text and not self.has_body and left * 2 >= self.capacity else self.capacity

    def add(self, text: str, tokens: int, waiting: PendingBlock) -> None:
        joint = "\n" if isinstance(waiting.block, TextBlock) and waiting.block.tight else "\n\n"
        self.tokens += tokens + (len(joint) if self.text else 0)
        self.text = self.text + joint + text if self.text else text
        self.has_body = self.has_body or waiting.is_body
        if not self.has_body:
            self.blocks.append(waiting)


def count_block_tokens(block: TextBlock | CodeBlock | TableBlock, cutter: TextCutter) -> int:
    """Return the tokens of a block as it is written into a chunk."""
    match block:
        case TextBlock(text=text):
            return cutter.count_tokens(text)
        case CodeBlock(text=text, fence=fence):
            return cutter.count_tokens(text) + cutter.count_fence_tokens(fence)
        case TableBlock(header=header, rows=rows):
            return sum(cutter.count_tokens_of_each([format_header(split_cells(header)), *rows])) + len(rows)


def sum_tokens(run: Sequence[PendingBlock]) -> int:
    return sum(waiting.tokens + JOINT_TOKENS for waiting in run) - JOINT_TOKENS


def pack_chunks(run: Sequence[PendingBlock], cutter: TextCutter, max_tokens: int) -> Iterator[ChunkDraft]:
    """Pack blocks greedily into chunks of similar length."""
    draft = ChunkDraft(choose_capacity(sum_tokens(_drop_after_last_body(run)), max_tokens))
    for waiting in run:
        for text, tokens in _cut_block(waiting, cutter, draft.find_block_capacity()):
            if not draft.fits(tokens):
                yield draft
                draft = ChunkDraft(draft.capacity)
            draft.add(text, tokens, waiting)
    if draft.text.strip():
        yield draft


def _drop_after_last_body(run: Sequence[PendingBlock]) -> Sequence[PendingBlock]:
    # a rule at the end must not cause another chunk
    last = max((place for place, waiting in enumerate(run) if waiting.is_body), default=len(run))
    return run[: last + 1]


def choose_capacity(tokens: int, max_tokens: int) -> int:
    """Return the length limit that makes all chunks of a section about equally long."""
    if tokens <= max_tokens:
        return max_tokens
    chunks = -(-tokens // max_tokens)
    return min(int(tokens / chunks * LENGTH_SLACK) + JOINT_TOKENS, max_tokens)


def _cut_block(waiting: PendingBlock, cutter: TextCutter, capacity: int) -> Iterator[tuple[str, int]]:
    """Yield the parts of a block and their tokens; a block that is too long is cut."""
    match waiting.block:
        case TextBlock(text=text):
            if waiting.tokens <= capacity:
                yield text, waiting.tokens
                return
            texts = cutter.cut_prose(text, capacity)
        case CodeBlock(text=text, fence=fence):
            inside = cutter.cut_code(text, max(capacity - cutter.count_fence_tokens(fence), MIN_CHUNK_TOKENS // 2))
            texts = [f"{fence}\n{part}\n{find_closing_fence(fence)}" for part in inside]
        case TableBlock() as table:
            texts = list(cut_table(table, cutter, capacity))
    yield from zip(texts, cutter.count_tokens_of_each(texts), strict=True)
