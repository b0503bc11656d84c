"""Cuts text that is too long for one chunk at the best boundary, counting tokens of the embedding model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer

CHARS_PER_TOKEN = 6
"""First estimate of the length that fits; doubled until enough."""
TEXT_ENDS = (
    re.compile(r"\n+"),
    re.compile(r"(?<![.!?…؟۔।])[.!?…؟۔।]++[\"'”’)\]*_]*+\s+(?![a-zß-ÿ])|[。！？]+[」』”）]*"),
    re.compile(r"[,;:–—]\s+|[、，；：]"),
    re.compile(r"\s+"),
)
"""Boundaries, best first: line, sentence, clause, word."""
LINE_START = re.compile(r"\n[ \t]*(\S)")
MIN_WRAP_CHARS, MAX_WRAP_CHARS = 40, 200
"""Length of the longest line of wrapped prose."""
CODE_ENDS = (re.compile(r"(?:(?<!\n)|(?=\n[ \t]))\n[ \t]*+\n++(?=\S)"), re.compile(r"\n[ \t]*\n+"), re.compile(r"\n"))
"""Boundaries of code, best first: before an unindented line, empty line, line."""


MIN_CHUNK_TOKENS = 16
JOINT_TOKENS = 3
"""Of the empty line between two blocks."""


class TextCutter:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def count_tokens(self, text: str) -> int:
        return self.count_tokens_of_each([text])[0]

    def count_tokens_of_each(self, texts: Sequence[str]) -> list[int]:
        return [len(encoding) for encoding in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def count_fence_tokens(self, fence: str) -> int:
        """Return the tokens of the two lines around a code block."""
        return self.count_tokens(fence) * 2 + 2

    def cut_prose(self, text: str, capacity: int) -> list[str]:
        """Cut prose into parts of at most `capacity` tokens, at sentence ends if possible, with no short last part."""
        if is_wrapped(text):
            text = " ".join(line.strip(" \t") for line in text.split("\n"))
        return self._balance_tail(list(self._cut_by_tokens(text, capacity)), capacity)

    def cut_code(self, text: str, capacity: int) -> list[str]:
        return [part for part in self._cut_at_ends(text, capacity, CODE_ENDS) if part.strip()]

    def _cut_by_tokens(self, text: str, capacity: int) -> Iterator[str]:
        while text := text.strip():
            end = self._find_cut(text, capacity)
            yield text[:end].rstrip()
            text = text[end:]

    def _find_cut(self, text: str, capacity: int) -> int:
        """Return the place of the best boundary in the second half of the text that fits."""
        limit = self._find_limit(text, capacity)
        if limit == len(text):
            return limit
        middle = limit // 2
        for end in TEXT_ENDS:
            if places := [middle + found.end() for found in end.finditer(text[middle:limit])]:
                return places[-1]
        return max(limit, 1)

    def _find_limit(self, text: str, capacity: int) -> int:
        far = capacity * CHARS_PER_TOKEN
        while len(encoding := self._tokenizer.encode(text[:far], add_special_tokens=False)) <= capacity:
            if far >= len(text):
                return len(text)
            far *= 2
        start: int = encoding.offsets[capacity][0]
        return start

    def _cut_at_ends(self, text: str, capacity: int, ends: Sequence[re.Pattern[str]]) -> Iterator[str]:
        """Split at the first kind of boundary and join parts that fit; longer parts are split at the next kind."""
        if self.count_tokens(text) <= capacity:
            yield text
            return
        if not ends:
            yield from self._cut_by_tokens(text, capacity)
            return
        joined, tokens = "", 0
        parts = list(_split_after(text, ends[0]))
        for part, count in zip(parts, self.count_tokens_of_each([part.rstrip() for part in parts]), strict=True):
            added = count + len(part) - len(part.rstrip())  # white space takes more tokens inside a text
            if joined and tokens + added > capacity:
                yield joined.strip("\n")
                joined, tokens = "", 0
            if added > capacity:
                yield from self._cut_at_ends(part.strip("\n"), capacity, ends[1:])
                continue
            joined, tokens = joined + part, tokens + added
        if joined:
            yield joined.strip("\n")

    def _balance_tail(self, parts: list[str], capacity: int) -> list[str]:
        if len(parts) < 2 or self.count_tokens(parts[-1]) * 4 > capacity:
            return parts
        together = f"{parts[-2]} {parts[-1]}"
        end = self._find_cut(together, (self.count_tokens(together) * 5) // 8)
        tail = together[end:].lstrip()
        return [*parts[:-2], together[:end].rstrip(), tail] if self.count_tokens(tail) <= capacity else parts


def is_wrapped(text: str) -> bool:
    """Whether line ends are only wrapping: most lines are full, and many lines begin with a small letter."""
    starts = LINE_START.findall(text)
    if not starts or sum(start.islower() for start in starts) * 5 < len(starts) * 2:
        return False
    lengths = [len(line) for line in text.split("\n")]
    widest = max(lengths)
    full = sum(length * 5 >= widest * 3 for length in lengths[:-1])
    return MIN_WRAP_CHARS <= widest <= MAX_WRAP_CHARS and full * 5 >= (len(lengths) - 1) * 4


def _split_after(text: str, end: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for found in end.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    yield text[start:]
