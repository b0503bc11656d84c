"""Repairs of whole pages: missing pages and lines, empty fences, running headers, rotation."""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pypdfium2 as pdfium

from knowledge.extract.pdf.repairs.words import reduce_to_letters

T = TypeVar("T")
EMPTY_FENCE = re.compile(r"^```\w*\s*```$")
WORD = re.compile(r"\w+")
DIGITS = re.compile(r"\d+")
MIN_LINE_LETTERS, MAX_LINE_LETTERS = 8, 200
SAMPLED_LETTERS = 40

EDGE_LINES = 3
"""Lines at the top and at the bottom of a page that can be running headers or footers."""
MAX_HEADER_CHARS = 400
MAX_REMEMBERED_LINES = 500

NumbersInLine = tuple[int, ...]


def ignore_parse_failure(step: Callable[[], T | None]) -> T | None:
    """Return None where liteparse fails, because pdfium can still read the file.

    Fault: liteparse refuses a PDF with bytes before its header as an unsupported format, and panics on some others.
    """
    try:
        return step()
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic in Rust is not an Exception
        return None


def fill_missing_pages(numbered: Iterable[tuple[int, str]], count: int) -> Iterator[str]:
    """Yield the Markdown of each page in order, with an empty text for a page that is missing.

    Fault: liteparse leaves out a page that it cannot load, so that its list of pages is shorter than the document.
    """
    expected = 1
    for number, markdown in numbered:
        while expected < number:
            yield ""
            expected += 1
        if expected == number <= count:
            yield markdown
            expected += 1
    for _ in range(expected, count + 1):
        yield ""


def drop_empty_fence(markdown: str) -> str:
    """Return an empty text for a page without text.

    Fault: liteparse returns an empty fenced code block for it.
    """
    return EMPTY_FENCE.sub("", markdown.strip())


def turn_upright(page: pdfium.PdfPage, textpage: pdfium.PdfTextPage) -> bool:
    """Set the page's rotation to the one that shows most of its letters upright; return whether it was another.

    Fault: pdfium returns the lines of a page with /Rotate 90 from bottom to top. liteparse returns nothing for lines
    that run up or down the page, and scrambled words for lines that are upside down.
    """
    upright = _find_upright_rotation(textpage)
    if upright in (None, page.get_rotation()):
        return False
    page.set_rotation(upright)
    return True


def _find_upright_rotation(textpage: pdfium.PdfTextPage) -> int | None:
    count = textpage.count_chars()
    sampled = range(0, count, max(1, count // SAMPLED_LETTERS))
    angles = (pdfium.raw.FPDFText_GetCharAngle(textpage, index) for index in sampled)
    turns = Counter(round(2 * angle / math.pi) % 4 for angle in angles if angle >= 0)
    return 90 * turns.most_common(1)[0][0] if turns else None


def restore_lost_lines(structured: str, plain: str, at_top: Callable[[str], bool], restored: set[str]) -> str:
    """Add the lines that only pdfium returns: above the page those from its top, below it the others.

    Fault: liteparse drops lines that run up the margin of a page, that are invisible or that overlap others, among them
    lines of formulas. A line that an earlier page of the document lost too (`restored`) is not added again.
    """
    missing = Counter(WORD.findall(plain)) - Counter(WORD.findall(structured))
    if not missing:
        return structured
    together = reduce_to_letters(structured)
    lost = [line for line in plain.split("\n") if _is_lost(line, missing, together) and _is_new(line, restored)]
    above = [line for line in lost if at_top(line)]
    below = [line for line in lost if line not in above]
    return "\n\n".join(part for part in ("\n".join(above), structured, "\n".join(below)) if part)


def _is_lost(line: str, missing: Counter[str], together: str) -> bool:
    words = WORD.findall(line)
    if sum(word in missing for word in words) <= len(words) / 2:
        return False
    letters = reduce_to_letters(line)
    return MIN_LINE_LETTERS <= len(letters) <= MAX_LINE_LETTERS and letters not in together


def _is_new(line: str, restored: set[str]) -> bool:
    """Whether no earlier page lost this line, apart from its numbers."""
    key = DIGITS.sub("0", reduce_to_letters(line))
    if key in restored:
        return False
    restored.add(key)
    return True


class RunningHeaders:
    """The running headers and footers of one document."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[int, NumbersInLine]] = OrderedDict()
        """By edge and letters: the last page with this line, and the numbers in it."""

    def strip_page(self, text: str, page: int) -> str:
        """Remove the headers and footers that an earlier page had.

        Fault: liteparse (keep_headers_footers=False) also removes chapter headings, and headers from their first page.
        """
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
        if len(line) > MAX_HEADER_CHARS or line.startswith("|"):
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
    """Whether the line is equal to the earlier one except for a page number; a heading must be equal throughout."""
    if page == last_page:
        return False
    if numbers == last:
        return True
    steps = {now - then for now, then in zip(numbers, last, strict=False)}
    return not line.startswith("#") and len(numbers) == len(last) and steps <= {0, page - last_page}
