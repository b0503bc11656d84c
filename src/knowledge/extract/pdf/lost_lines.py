"""Lines that the structured reading of a page dropped: given back once, above the page or below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

WORD = re.compile(r"\w+")
NOT_LETTERS = re.compile(r"[\W_]+")
DIGITS = re.compile(r"\d+")
SHORTEST, LONGEST = 8, 200


class LostLines:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def restore(self, structured: str, plain: str, at_top: Callable[[str], bool]) -> str:
        """The page with its lost lines: those from its head above it, the rest below."""
        missing = Counter(WORD.findall(plain)) - Counter(WORD.findall(structured))
        if not missing:
            return structured
        together = squeezed(structured)
        lost = [line for line in plain.split("\n") if _is_lost(line, missing, together) and self._new(line)]
        above = [line for line in lost if at_top(line)]
        below = [line for line in lost if line not in above]
        return "\n\n".join(part for part in ("\n".join(above), structured, "\n".join(below)) if part)

    def _new(self, line: str) -> bool:
        """Whether no earlier page lost this line too; its numbers may differ."""
        key = DIGITS.sub("0", squeezed(line))
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


def _is_lost(line: str, missing: Counter[str], together: str) -> bool:
    words = WORD.findall(line)
    if sum(word in missing for word in words) <= len(words) / 2:
        return False
    letters = squeezed(line)
    return SHORTEST <= len(letters) <= LONGEST and letters not in together


def squeezed(text: str) -> str:
    """Letters and digits alone, so that line ends, hyphens and markup make no difference."""
    return NOT_LETTERS.sub("", text).casefold()
