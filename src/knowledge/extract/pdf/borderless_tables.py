"""Tables without lines, which liteparse reads column by column: pdfium's text, line by line, shows their rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from knowledge.extract import tables
from knowledge.extract.pdf.cells import Cell, table
from knowledge.extract.pdf.lost_lines import squeezed

FEWEST = 3
"""Lines of a table."""
SHORT = 30
"""Letters of a line between two torn ones that may belong to their table."""
FIRM = 4
"""Letters of a line that can be told from others."""
NOT_LETTERS = re.compile(r"[^\w\n]+|_+")
TOKEN = re.compile(r"[^\s|]+")
MARKS = str.maketrans("", "", "\\*_#")
BLANKS = re.compile(r"\n{3,}")
LINE = re.compile(r".+")
TABLE = re.compile(r"(?m)^\|.*(?:\n\|.*)*")
NO_WORDS = re.compile(r"[\W_]*")
FENCE = "```"
LEADERS = ". . ."
"""Between a word and its page, in a table of contents."""

Lines = list[str]
Ask = Callable[[Sequence[str]], list[list[Cell]]]


def restored(structured: str, plain: str, cells_of: Ask) -> str:
    """The page with the rows of such tables in lines, each where pdfium saw it."""
    lines = [line for line in plain.split("\n") if line.strip()]
    letters = NOT_LETTERS.sub("", "\n".join(lines)).casefold().split("\n")
    together = squeezed(structured)
    torn = [bool(part) and part not in together for part in letters]
    if sum(torn) < FEWEST:
        return structured
    known = set(_words(structured.replace("|", " ")))
    for start, end in list(_runs(letters, torn)):
        if _may_be_table(lines[start:end], known) and (rows := table(cells_of(lines[start:end]))):
            structured = _placed(structured, lines, start, end, tables.table(rows))
    return structured


def _may_be_table(lines: Lines, known: set[str]) -> bool:
    """Asked before pdfium is, because asking it for the place of every letter costs the most."""
    return all(LEADERS not in line and known.issuperset(_words(line)) for line in lines)


def _runs(letters: Lines, torn: list[bool]) -> Iterator[tuple[int, int]]:
    """Torn lines in a row, with a short one between two of them."""
    start: int | None = None
    for place in range(len(torn) + 1):
        within = place < len(torn) and (
            torn[place] or (start is not None and any(torn[place + 1 : place + 2]) and len(letters[place]) < SHORT)
        )
        if within and start is None:
            start = place
        elif not within and start is not None:
            if place - start >= FEWEST:
                yield start, place
            start = None


def _placed(structured: str, lines: Lines, start: int, end: int, drawn: str) -> str:
    """With the words of these lines taken out of where they stand, and the table behind the line before them."""
    tokens = list(TOKEN.finditer(structured))
    held, anchor = _held(tokens, lines, start, end)
    needed = Counter(word for line in lines[start:end] for word in _words(line))
    taken: set[int] = set()
    for block in LINE.finditer(structured):
        free = [
            place
            for place, token in enumerate(tokens)
            if place not in held and block.start() <= token.start() < block.end() and _words(token[0])
        ]
        words = Counter(_bare(tokens[place][0]) for place in free)
        if words <= needed:  # a line that also says something else is no part of the table
            needed -= words
            taken.update(free)
    if needed or not taken or _splits_a_table(structured, tokens, taken):
        return structured
    border = tokens[min(taken) if anchor is None else anchor].start()
    return _rewritten(structured, [tokens[place] for place in sorted(taken)], border, drawn)


def _splits_a_table(structured: str, tokens: list[re.Match[str]], taken: set[int]) -> bool:
    """Whether some words of a table that liteparse saw would go, and others stay."""
    for block in TABLE.finditer(structured):
        inside = [place for place, token in enumerate(tokens) if block.start() <= token.start() < block.end()]
        words = {place for place in inside if NO_WORDS.fullmatch(tokens[place][0]) is None}
        if words & taken and words - taken:
            return True
    return False


def _held(tokens: list[re.Match[str]], lines: Lines, start: int, end: int) -> tuple[set[int], int | None]:
    """The words that belong to other lines, and the last one before the table."""
    letters = [squeezed(token[0]) for token in tokens]
    owners = [place for place, part in enumerate(letters) for _ in part]
    together = "".join(letters)
    held: set[int] = set()
    anchor = None
    for place, line in enumerate(lines):
        part = squeezed(line)
        found = together.find(part) if len(part) >= FIRM and not start <= place < end else -1
        if found >= 0:
            held.update(owners[found : found + len(part)])
            anchor = owners[found + len(part) - 1] if place < start else anchor
    return held, anchor


def _rewritten(structured: str, taken: list[re.Match[str]], border: int, drawn: str) -> str:
    written: Lines = []
    waiting: Lines = []
    place, emptied, fenced = 0, False, False
    for line in structured.split("\n"):
        end = place + len(line)
        inside = [token for token in taken if place <= token.start() <= end]
        kept = _without(line, place, inside) if inside else line
        fenced ^= line.startswith(FENCE)
        emptied = NO_WORDS.fullmatch(kept) is not None and bool(inside or (emptied and line.startswith("|")))
        written += [] if emptied else [kept]
        waiting += ["", drawn, ""] if place <= border <= end else []
        if not fenced:
            _close(written)
            written += waiting
            waiting = []
        place = end + 1
    return BLANKS.sub("\n\n", "\n".join([*written, *waiting])).strip()


def _without(line: str, start: int, tokens: list[re.Match[str]]) -> str:
    for token in reversed(tokens):
        line = line[: token.start() - start] + line[token.end() - start :]
    return " ".join(line.split())


def _close(written: Lines) -> None:
    """Take a fence off that has just been closed with nothing left in it."""
    if written and written[-1] == FENCE:
        before = [*reversed(written[:-1])]
        filled = next((place for place, line in enumerate(before) if line), None)
        if filled is not None and before[filled].startswith(FENCE):
            del written[-filled - 2 :]


def _words(line: str) -> Lines:
    return [word for word in map(_bare, line.split()) if NO_WORDS.fullmatch(word) is None]


def _bare(word: str) -> str:
    return word.translate(MARKS)
