"""CSV and TSV as Markdown tables, in pieces that each repeat the header."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice

from knowledge.extract import markdown_tables
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.charset import read_text_blocks

DELIMITERS = ",;\t|"
SNIFFED_LINES = 50
MAX_FIELD_CHARS = 1 << 20


def extract(source: Source, doc_type: str) -> Extraction:
    return Extraction(Facts(doc_type), _read_pages(source))


def _read_pages(source: Source) -> Iterator[PageText]:
    above, rows = markdown_tables.split_at_header(_read_rows(source))
    for piece in markdown_tables.format_table_pieces(rows):
        yield PageText(above + piece)
        above = ""


def _read_rows(source: Source) -> Iterator[list[str]]:
    csv.field_size_limit(MAX_FIELD_CHARS)
    lines = _read_lines(source)
    head = list(islice(lines, SNIFFED_LINES))
    delimiter = sniff_delimiter(head)
    if head and head[0].lower().startswith("sep="):
        delimiter, head = head[0][4:5] or delimiter, head[1:]
    yield from csv.reader(chain(head, lines), delimiter=delimiter, skipinitialspace=True)


def _read_lines(source: Source) -> Iterator[str]:
    """Yield lines with their ends, which quoted cells can contain, and without NULs, which csv.reader rejects."""
    rest = ""
    for block in read_text_blocks(source):
        parts = (rest + block.replace("\0", "")).splitlines(keepends=True)
        rest = parts.pop() if parts else ""
        yield from parts
    if rest:
        yield rest


def sniff_delimiter(lines: list[str]) -> str:
    """Return the delimiter that splits most lines into the same number of cells, by default a comma."""
    scores = {delimiter: _score_delimiter(lines, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: scores[delimiter])
    return best if scores[best] > 0 else ","


def _score_delimiter(lines: list[str], delimiter: str) -> float:
    try:
        widths = Counter(len(cells) for cells in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if cells)
    except csv.Error:
        return 0.0
    if not widths:
        return 0.0
    width, count = widths.most_common(1)[0]
    return count / widths.total() * min(width, 5) if width > 1 else 0.0
