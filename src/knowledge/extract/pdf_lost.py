"""Lines that the structured reading of a page dropped: given back once, so that running headers do not come again."""

from __future__ import annotations

import re

WORD = re.compile(r"\w{4,}")
NOT_LETTERS = re.compile(r"[\W_]+")
DIGITS = re.compile(r"\d+")
SHORTEST, LONGEST = 8, 200


class LostLines:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def restore(self, structured: str, plain: str) -> str:
        """The page with its lost lines below it."""
        known = set(WORD.findall(structured))
        together = _squeezed(structured)
        lost = [line for line in plain.split("\n") if self._new(line) and _is_lost(line, known, together)]
        return f"{structured}\n\n{chr(10).join(lost)}" if lost else structured

    def _new(self, line: str) -> bool:
        """Whether no earlier page had this line; its numbers may differ."""
        key = DIGITS.sub("0", _squeezed(line))
        if not SHORTEST <= len(key) <= LONGEST or key in self._seen:
            return False
        self._seen.add(key)
        return True


def _is_lost(line: str, known: set[str], together: str) -> bool:
    words = WORD.findall(line)
    if not words or sum(word not in known for word in words) <= len(words) / 2:
        return False
    return _squeezed(line) not in together


def _squeezed(text: str) -> str:
    """Letters and digits alone, so that line ends, hyphens and markup make no difference."""
    return NOT_LETTERS.sub("", text).casefold()
