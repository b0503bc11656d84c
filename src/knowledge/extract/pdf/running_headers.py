"""Running headers, footers and page numbers: the first of them stays, the others are taken off their pages.

A page of a few lines keeps them all: there, what looks like a running line may be all that it has to say.
"""

from __future__ import annotations

from collections import OrderedDict

from knowledge.extract.pdf.lost_lines import DIGITS, squeezed

EDGE = 3
"""So many lines at the top of a page, and at its bottom, may be such."""
LONGEST = 400
REMEMBERED = 500

Numbers = tuple[int, ...]


class RunningLines:
    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[int, Numbers]] = OrderedDict()
        """By their edge and letters: the page they were seen on last, and the numbers they had there."""

    def strip(self, text: str, page: int) -> str:
        lines = text.split("\n")
        filled = [place for place, line in enumerate(lines) if line.strip()]
        if len(filled) <= 2 * EDGE:
            return text
        for edge, places in (("top", filled[:EDGE]), ("bottom", filled[-EDGE:])):
            for place in places:
                if self._runs(edge, lines[place].strip(), page):
                    lines[place] = ""
        return "\n".join(lines).strip("\n")

    def _runs(self, edge: str, line: str, page: int) -> bool:
        if len(line) > LONGEST or line.startswith("|"):
            return False
        letters = DIGITS.sub("0", squeezed(line))
        key = f"{edge} {letters}"
        numbers = tuple(map(int, (digits[:9] for digits in DIGITS.findall(line))))
        before = self._seen.pop(key, None)
        self._seen[key] = page, numbers
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return before is not None and letters != "" and _goes_on(line, page, numbers, *before)


def _goes_on(line: str, page: int, numbers: Numbers, last_page: int, last: Numbers) -> bool:
    """The same line again, or the same but for a number that counts the pages; a heading has to be the same."""
    if page == last_page:
        return False
    if numbers == last:
        return True
    steps = {now - then for now, then in zip(numbers, last, strict=False)}
    return not line.startswith("#") and len(numbers) == len(last) and steps <= {0, page - last_page}
