"""Lines of PDF pages: puts back those that the structured reading lost, and drops running headers."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable

WORD = re.compile(r"\w+")
NOT_LETTERS = re.compile(r"[\W_]+")
DIGITS = re.compile(r"\d+")
MIN_LINE_LETTERS, MAX_LINE_LETTERS = 8, 200

EDGE_LINES = 3
"""So many lines at the top of a page, and at its bottom, may be such."""
MAX_LINE_CHARS = 400
MAX_REMEMBERED_LINES = 500

NumbersInLine = tuple[int, ...]


class LostLines:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def restore(self, structured: str, plain: str, at_top: Callable[[str], bool]) -> str:
        """The page with its lost lines: those from its head above it, the rest below."""
        missing = Counter(WORD.findall(plain)) - Counter(WORD.findall(structured))
        if not missing:
            return structured
        together = reduce_to_letters(structured)
        lost = [line for line in plain.split("\n") if _is_lost(line, missing, together) and self._is_new(line)]
        above = [line for line in lost if at_top(line)]
        below = [line for line in lost if line not in above]
        return "\n\n".join(part for part in ("\n".join(above), structured, "\n".join(below)) if part)

    def _is_new(self, line: str) -> bool:
        """Whether no earlier page lost this line too; its numbers may differ."""
        key = DIGITS.sub("0", reduce_to_letters(line))
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


def _is_lost(line: str, missing: Counter[str], together: str) -> bool:
    words = WORD.findall(line)
    if sum(word in missing for word in words) <= len(words) / 2:
        return False
    letters = reduce_to_letters(line)
    return MIN_LINE_LETTERS <= len(letters) <= MAX_LINE_LETTERS and letters not in together


def reduce_to_letters(text: str) -> str:
    """Letters and digits alone, so that line ends, hyphens and markup make no difference."""
    return NOT_LETTERS.sub("", text).casefold()


class RunningHeaders:
    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[int, NumbersInLine]] = OrderedDict()
        """By their edge and letters: the page they were seen on last, and the numbers they had there."""

    def strip_page(self, text: str, page: int) -> str:
        lines = text.split("\n")
        filled = [place for place, line in enumerate(lines) if line.strip()]
        if len(filled) <= 2 * EDGE_LINES:
            return text
        for edge, places in (("top", filled[:EDGE_LINES]), ("bottom", filled[-EDGE_LINES:])):
            for place in places:
                if self._is_running(edge, lines[place].strip(), page):
                    lines[place] = ""
        return "\n".join(lines).strip("\n")

    def _is_running(self, edge: str, line: str, page: int) -> bool:
        if len(line) > MAX_LINE_CHARS or line.startswith("|"):
            return False
        letters = DIGITS.sub("0", reduce_to_letters(line))
        key = f"{edge} {letters}"
        numbers = tuple(map(int, (digits[:9] for digits in DIGITS.findall(line))))
        before = self._seen.pop(key, None)
        self._seen[key] = page, numbers
        if len(self._seen) > MAX_REMEMBERED_LINES:
            self._seen.popitem(last=False)
        return before is not None and letters != "" and _continues_previous(line, page, numbers, *before)


def _continues_previous(line: str, page: int, numbers: NumbersInLine, last_page: int, last: NumbersInLine) -> bool:
    """The same line again, or the same but for a number that counts the pages; a heading has to be the same."""
    if page == last_page:
        return False
    if numbers == last:
        return True
    steps = {now - then for now, then in zip(numbers, last, strict=False)}
    return not line.startswith("#") and len(numbers) == len(last) and steps <= {0, page - last_page}
