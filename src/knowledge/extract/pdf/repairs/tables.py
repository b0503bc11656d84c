"""Repairs of tables: read column by column, rows merged, prose read as a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise

import pypdfium2 as pdfium

from knowledge.extract import markdown_tables
from knowledge.extract.pdf.repairs.words import reduce_to_letters

MIN_GAP_HEIGHTS = 0.75
"""Smallest gap between two cells, in heights of the letters beside it."""
MAX_MEAN_CELL_CHARS = 24
"""Longest mean length of a table's cells; lines in columns of prose are longer."""

Box = tuple[float, float, float, float]

MIN_TABLE_LINES = 3
MAX_SHORT_LINE_LETTERS = 30
"""Longest line between two torn lines that can belong to the same table."""
MIN_ANCHOR_LETTERS = 4
"""Shortest line that identifies a place on the page."""
NOT_LETTERS = re.compile(r"[^\w\n]+|_+")
TOKEN = re.compile(r"[^\s|]+")
MARKDOWN_MARKS = str.maketrans("", "", "\\*_#")
BLANK_LINES = re.compile(r"\n{3,}")
LINE = re.compile(r".+")
TABLE = re.compile(r"(?m)^\|.*(?:\n\|.*)*")
NO_WORDS = re.compile(r"[\W_]*")
FENCE = "```"
DOT_LEADERS = ". . ."

Lines = list[str]

CELL_BORDER = re.compile(r"(?<!\\)\|")
EMPHASIS_MARKS = str.maketrans("", "", "\\*")
SENTENCE_ENDS = (".", "!", "?", ":")
PROSE_COLUMNS = 2
MIN_FILLED_CELLS, MAX_CELLS, MAX_WORDS, MAX_MERGED_ROWS = 3, 60, 150, 3

RowWords = list[list[str]]
"""The words of each cell of a row."""


@dataclass(frozen=True, slots=True)
class LineCell:
    left: float
    right: float
    words: str


class CellFinder:
    """Finds the cells of lines by the positions of their letters on an open page."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        self._page = page

    def __call__(self, lines: Sequence[str]) -> list[list[LineCell]]:
        """Return the cells of each line; none for a line that the page does not have."""
        textpage = self._page.get_textpage()
        try:
            return [self._find_cells(textpage, line.strip()) for line in lines]
        finally:
            textpage.close()

    def _find_cells(self, textpage: pdfium.PdfTextPage, line: str) -> list[LineCell]:
        found = textpage.search(line, match_case=True).get_next() if line else None
        if found is None or found[1] != len(line):
            return []
        boxes = [textpage.get_charbox(found[0] + place) for place in range(len(line))]
        cells: list[LineCell] = []
        start = 0
        for place in (place for place, letter in enumerate(line) if letter == " "):
            if 0 < place < len(line) - 1 and _is_wide_gap(boxes[place - 1], boxes[place + 1]):
                cells.append(_make_cell(line, boxes, start, place))
                start = place + 1
        return [*cells, _make_cell(line, boxes, start, len(line))]


def _is_wide_gap(before: Box, after: Box) -> bool:
    height = max(before[3] - before[1], after[3] - after[1])
    return after[0] - before[2] > MIN_GAP_HEIGHTS * height


def _make_cell(line: str, boxes: list[Box], start: int, end: int) -> LineCell:
    inside = boxes[start:end]
    return LineCell(min(box[0] for box in inside), max(box[2] for box in inside), line[start:end].strip())


def build_table_rows(lines: list[list[LineCell]]) -> list[list[str]] | None:
    """Return lines of cells as the rows of a table, or None if they do not look like one."""
    if not all(lines):
        return None
    width, often = Counter(map(len, lines)).most_common(1)[0]
    cells = [cell for line in lines for cell in line]
    if width < 2 or 2 * often < len(lines) or sum(len(cell.words) for cell in cells) > MAX_MEAN_CELL_CHARS * len(cells):
        return None
    whole = [line for line in lines if len(line) == width]
    columns = [(min(cell.left for cell in part), max(cell.right for cell in part)) for part in zip(*whole, strict=True)]
    if any(right >= left for (_, right), (left, _) in pairwise(columns)):
        return None
    return [_build_row(line, columns) for line in lines]


def _build_row(line: list[LineCell], columns: list[tuple[float, float]]) -> list[str]:
    row = [""] * len(columns)
    for cell in line:
        middle = (cell.left + cell.right) / 2
        place = min(range(len(columns)), key=lambda place: _measure_distance(middle, columns[place]))
        row[place] = f"{row[place]} {cell.words}".strip()
    return row


def _measure_distance(middle: float, column: tuple[float, float]) -> float:
    return max(column[0] - middle, middle - column[1], 0.0)


FindCells = Callable[[Sequence[str]], list[list[LineCell]]]


def restore_borderless_tables(structured: str, plain: str, find_cells: FindCells) -> str:
    """Rewrite tables without borders row by row, at the place where pdfium has their lines.

    Fault: liteparse takes the columns of such a table for columns of prose and returns one after the other.
    """
    lines = [line for line in plain.split("\n") if line.strip()]
    letters = NOT_LETTERS.sub("", "\n".join(lines)).casefold().split("\n")
    together = reduce_to_letters(structured)
    torn = [bool(part) and part not in together for part in letters]
    if sum(torn) < MIN_TABLE_LINES:
        return structured
    known = set(_split_words(structured.replace("|", " ")))
    for start, end in list(_find_torn_runs(letters, torn)):
        if _may_be_table(lines[start:end], known) and (rows := build_table_rows(find_cells(lines[start:end]))):
            structured = _insert_table(structured, lines, start, end, markdown_tables.format_table(rows))
    return structured


def _may_be_table(lines: Lines, known: set[str]) -> bool:
    # checked first, because looking up the position of every letter is the slowest step
    return all(DOT_LEADERS not in line and known.issuperset(_split_words(line)) for line in lines)


def _find_torn_runs(letters: Lines, torn: list[bool]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of runs of torn lines; a short line between two of them belongs to the run."""
    start: int | None = None
    for place in range(len(torn) + 1):
        within = place < len(torn) and (
            torn[place]
            or (start is not None and any(torn[place + 1 : place + 2]) and len(letters[place]) < MAX_SHORT_LINE_LETTERS)
        )
        if within and start is None:
            start = place
        elif not within and start is not None:
            if place - start >= MIN_TABLE_LINES:
                yield start, place
            start = None


def _insert_table(structured: str, lines: Lines, start: int, end: int, table_markdown: str) -> str:
    """Remove the words of these lines from the page and insert the table after the line before them."""
    tokens = list(TOKEN.finditer(structured))
    held, anchor = _find_held_tokens(tokens, lines, start, end)
    needed = Counter(word for line in lines[start:end] for word in _split_words(line))
    taken: set[int] = set()
    for block in LINE.finditer(structured):
        free = [
            place
            for place, token in enumerate(tokens)
            if place not in held and block.start() <= token.start() < block.end() and _split_words(token[0])
        ]
        words = Counter(_strip_marks(tokens[place][0]) for place in free)
        if words <= needed:  # a line with other words is not part of the table
            needed -= words
            taken.update(free)
    if needed or not taken or _splits_a_table(structured, tokens, taken):
        return structured
    border = tokens[min(taken) if anchor is None else anchor].start()
    return _rewrite_page(structured, [tokens[place] for place in sorted(taken)], border, table_markdown)


def _splits_a_table(structured: str, tokens: list[re.Match[str]], taken: set[int]) -> bool:
    """Whether only some of the words of a table in liteparse's reading would be removed."""
    for block in TABLE.finditer(structured):
        inside = [place for place, token in enumerate(tokens) if block.start() <= token.start() < block.end()]
        words = {place for place in inside if NO_WORDS.fullmatch(tokens[place][0]) is None}
        if words & taken and words - taken:
            return True
    return False


def _find_held_tokens(tokens: list[re.Match[str]], lines: Lines, start: int, end: int) -> tuple[set[int], int | None]:
    """Return the tokens that belong to other lines, and the last token before the table."""
    letters = [reduce_to_letters(token[0]) for token in tokens]
    owners = [place for place, part in enumerate(letters) for _ in part]
    together = "".join(letters)
    held: set[int] = set()
    anchor = None
    for place, line in enumerate(lines):
        part = reduce_to_letters(line)
        found = together.find(part) if len(part) >= MIN_ANCHOR_LETTERS and not start <= place < end else -1
        if found >= 0:
            held.update(owners[found : found + len(part)])
            anchor = owners[found + len(part) - 1] if place < start else anchor
    return held, anchor


def _rewrite_page(structured: str, taken: list[re.Match[str]], border: int, table_markdown: str) -> str:
    written: Lines = []
    waiting: Lines = []
    place, emptied, fenced = 0, False, False
    for line in structured.split("\n"):
        end = place + len(line)
        inside = [token for token in taken if place <= token.start() <= end]
        kept = _remove_tokens(line, place, inside) if inside else line
        fenced ^= line.startswith(FENCE)
        emptied = NO_WORDS.fullmatch(kept) is not None and bool(inside or (emptied and line.startswith("|")))
        written += [] if emptied else [kept]
        waiting += ["", table_markdown, ""] if place <= border <= end else []
        if not fenced:
            _drop_empty_fence(written)
            written += waiting
            waiting = []
        place = end + 1
    return BLANK_LINES.sub("\n\n", "\n".join([*written, *waiting])).strip()


def _remove_tokens(line: str, start: int, tokens: list[re.Match[str]]) -> str:
    for token in reversed(tokens):
        line = line[: token.start() - start] + line[token.end() - start :]
    return " ".join(line.split())


def _drop_empty_fence(written: Lines) -> None:
    """Remove a fenced block that has just been closed and is empty."""
    if written and written[-1] == FENCE:
        before = [*reversed(written[:-1])]
        filled = next((place for place, line in enumerate(before) if line), None)
        if filled is not None and before[filled].startswith(FENCE):
            del written[-filled - 2 :]


def _split_words(line: str) -> Lines:
    return [word for word in map(_strip_marks, line.split()) if NO_WORDS.fullmatch(word) is None]


def _strip_marks(word: str) -> str:
    return word.translate(MARKDOWN_MARKS)


def separate_rows(structured: str, plain: str) -> str:
    """Repair the tables in liteparse's reading: prose read as a table, a paragraph as header, merged rows."""
    if "\n|" not in f"\n{structured}":
        return structured
    plain_lines = [words for line in plain.split("\n") if (words := _strip_emphasis(line.split()))]
    lines: list[str] = []
    for is_table, group in groupby(structured.split("\n"), key=lambda line: line.startswith("|")):
        block = list(group)
        lines += _rewrite_table(block, plain_lines, lines) if is_table and len(block) > 1 else block
    return "\n".join(lines)


def _rewrite_table(lines: list[str], plain_lines: list[list[str]], above: list[str]) -> list[str]:
    rows = [[cell.split() for cell in CELL_BORDER.split(line)[1:-1]] for line in (lines[0], *lines[2:])]
    if (prose := convert_prose_table(rows, plain_lines)) is not None:
        return prose
    rows = restore_paragraph_end(rows, plain_lines, above)
    parted = [part for row in rows for part in split_merged_rows(row, plain_lines)]
    return [_format_row(parted[0]), lines[1], *map(_format_row, parted[1:])]


def _format_row(row: RowWords) -> str:
    return f"| {' | '.join(' '.join(cell) for cell in row)} |"


def convert_prose_table(rows: list[RowWords], plain_lines: list[list[str]]) -> list[str] | None:
    """Return the rows as lines of prose if a hyphenated word continues in the next row; None for a table.

    Fault: liteparse takes paragraphs with a hanging indent for a table of two columns.
    """
    known = {word for line in plain_lines for word in line}
    if len(rows[0]) != PROSE_COLUMNS or not _has_hyphenated_row(rows, known):
        return None
    return [" ".join(word for cell in row for word in cell) for row in rows]


def _has_hyphenated_row(rows: list[RowWords], known: set[str]) -> bool:
    ends = (row[-1][-1] for row in rows if row[-1])
    starts = [row[0][0] if row[0] else "" for row in rows[1:]]
    return any(end.endswith("-") and f"{end[:-1]}{start}" in known for end, start in zip(ends, starts, strict=False))


def restore_paragraph_end(rows: list[RowWords], plain_lines: list[list[str]], above: list[str]) -> list[RowWords]:
    """Return the rows without a header that is the last line of the paragraph above, which is completed.

    Fault: liteparse takes the last line of a paragraph for the header of a table right below it.
    """
    if len(rows) < 2 or not _ends_paragraph(rows[0], plain_lines, above):
        return rows
    place = next(place for place in range(len(above) - 1, -1, -1) if above[place])
    above[place] += " " + " ".join(word for cell in rows[0] for word in cell)
    return rows[1:]


def _ends_paragraph(row: RowWords, plain_lines: list[list[str]], above: list[str]) -> bool:
    before = next((line for line in reversed(above) if line), "")
    words = _strip_emphasis(word for cell in row for word in cell)
    is_open = before and not before.startswith(("#", "|", "-")) and not before.endswith(SENTENCE_ENDS)
    return bool(is_open and not all(row) and words and words[0].islower() and words in plain_lines)


def split_merged_rows(row: RowWords, plain_lines: list[list[str]]) -> list[RowWords]:
    """Return the rows of which a row was made, if consecutive lines of pdfium's text have exactly its words.

    Fault: liteparse merges rows that no line is drawn between, if lines are drawn between others.
    """
    words = _strip_emphasis(word for cell in row for word in cell)
    filled = sum(map(bool, row))
    if filled < MIN_FILLED_CELLS or len(row) > MAX_CELLS or len(words) > MAX_WORDS or len(words) < 2 * filled:
        return [row]
    for start in (place for place, line in enumerate(plain_lines) if line[0] == words[0]):
        for count in range(2, MAX_MERGED_ROWS + 1):
            lines = plain_lines[start : start + count]
            if (
                sum(map(len, lines)) == len(words)
                and (parts := _assign_words(row, lines))
                and _looks_like_rows(parts, filled)
            ):
                return parts
    return [row]


def _assign_words(row: RowWords, lines: list[list[str]]) -> list[RowWords] | None:
    """Assign the words of each cell to the lines; None if they do not add up to exactly these lines."""
    cells = [_strip_emphasis(cell) for cell in row]

    @cache
    def assign(place: int, taken: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
        if place == len(cells):
            return () if all(count == len(line) for count, line in zip(taken, lines, strict=True)) else None
        for shares in _list_shares(cells[place], lines, taken):
            rest = assign(place + 1, tuple(count + share for count, share in zip(taken, shares, strict=True)))
            if rest is not None:
                return (shares, *rest)
        return None

    found = assign(0, (0,) * len(lines))
    return [_take_line(row, found, number) for number in range(len(lines))] if found else None


def _take_line(row: RowWords, found: Sequence[tuple[int, ...]], number: int) -> RowWords:
    starts = [sum(shares[:number]) for shares in found]
    return [cell[start : start + shares[number]] for cell, start, shares in zip(row, starts, found, strict=True)]


def _list_shares(words: list[str], lines: list[list[str]], taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield how many of a cell's words each line can take, even shares first."""
    if not lines:
        if not words:
            yield ()
        return
    even = -(-len(words) // len(lines))
    for count in sorted(range(len(words) + 1), key=lambda count: abs(count - even)):
        if lines[0][taken[0] : taken[0] + count] == words[:count]:
            yield from ((count, *rest) for rest in _list_shares(words[count:], lines[1:], taken[1:]))


def _looks_like_rows(parts: list[RowWords], filled: int) -> bool:
    # numbers below each other are rows, words below each other may be one cell of two lines
    cells = list(zip(*parts, strict=True))
    numbers = sum(all(cell) and any(map(str.isdigit, "".join(cell[-1]))) for cell in cells)
    return 2 * numbers >= filled


def _strip_emphasis(words: Iterator[str] | list[str]) -> list[str]:
    return [bare for word in words if (bare := word.translate(EMPHASIS_MARKS))]
