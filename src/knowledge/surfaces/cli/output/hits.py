"""Prints search results on the terminal with the query terms highlighted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.model import DocumentKind, Hit, Json, JsonValue, SearchAnswer
from knowledge.surfaces.cli.output.terminal import (
    print_facts,
    print_message,
    print_output,
    print_table,
    sanitize_text,
    style_text,
)

if TYPE_CHECKING:
    from rich.text import Text

MARK_STYLE = "bold yellow"
INDENT_COLUMNS = 4

Span = tuple[int, int]

_TOKEN = re.compile(r"\w[\w\u0300-\u036f]*(?:[.\-'’]\w+)*[+#]*")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

EXCERPT_CHARS = 320


def print_answer(answer: SearchAnswer, question: str, full: bool, first: int = 1) -> None:
    for number, hit in enumerate(answer.hits, first):
        print_hit(number, hit, question, full)
    for note in answer.notes:
        print_message(note)
    if not answer.hits:
        print_message("No results.")


def print_hit(number: int, hit: Hit, question: str, full: bool) -> None:
    from rich.padding import Padding

    indent = (0, 0, 0, INDENT_COLUMNS)
    text, place = (
        Padding(format_passage(hit, question, full), indent),
        Padding(style_text(format_origin(hit), "dim"), indent),
    )
    print_output(format_heading(number, hit), text, place, "")


def format_heading(number: int, hit: Hit) -> Text:
    """Format the first line of a hit: rank, title, page, headings, score."""
    line = style_text(f"{number:>2}  ", "bold")
    line.append_text(style_text(hit.document.title, "bold cyan"))
    places = [f"page {hit.chunk.page}"] if hit.chunk.page is not None else []
    section = hit.chunk.section[1:] if hit.chunk.section[:1] == (hit.document.title,) else hit.chunk.section
    places += [" › ".join(section)] if section else []
    for place in places:
        line.append_text(style_text(f"  {place}", "cyan"))
    line.append_text(style_text(f"  {hit.score:.2f}", "green"))
    return line


def format_passage(hit: Hit, question: str, full: bool) -> Text:
    """Format the text of a hit with the query terms highlighted."""
    language = hit.document.language
    text = sanitize_text(hit.text.strip() if full else join_lines(hit.text))
    spans = find_marks(text, find_question_terms(question, language), language)
    shown = Excerpt(text, tuple(spans)) if full else make_excerpt(text, spans)
    line = style_text(shown.text)
    for start, end in shown.marks:
        line.stylize(MARK_STYLE, start, end)
    return line


def format_origin(hit: Hit) -> str:
    document = hit.document
    name = None if document.kind is DocumentKind.NOTE else document.filename
    where = hit.location or document.source_path or document.url or name or document.kind.value
    first, last = hit.indexes
    which = f"passage {first}" if first == last else f"passages {first} to {last}"
    return f"{where} · {document.collection} · document {document.id}, {which}"


def print_explanation(answer: SearchAnswer) -> None:
    """Print the scores of each step for each hit, and the time of each step."""
    rows = [{"#": at, **(hit.explanation or {})} for at, hit in enumerate(answer.hits, 1)]
    print_rows_table(rows)
    whole = dict(answer.explanation or {})
    steps = whole.pop("steps", [])
    if isinstance(steps, list):
        print_rows_table([step for step in steps if isinstance(step, dict)])
    print_facts([("matched", answer.total), *((name, format_cell(value)) for name, value in whole.items())])


def print_rows_table(rows: Sequence[Json]) -> None:
    """Print rows as a table with numbers aligned to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if names and rows:
        numbers = [name for name in names if not any(isinstance(row.get(name), str) for row in rows)]
        print_table(names, [[format_cell(row.get(name)) for name in names] for row in rows], right=numbers)
        print_output("")


def format_cell(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.3f}"
        case list():
            return ", ".join(map(format_cell, value))
    return str(value)


def find_question_terms(question: str, language: str | None) -> frozenset[str]:
    """Return the terms of the query without stop words."""
    from knowledge.text import analyzer

    asked = analyzer.analyse_question(question, [language] if language else [])
    return frozenset(form for forms in asked.terms for form in forms)


def find_marks(text: str, wanted: frozenset[str], language: str | None) -> list[Span]:
    """Return the positions of the terms in the text, sorted and merged."""
    from knowledge.text import analyzer

    found: list[Span] = []
    for token in _TOKEN.finditer(text):
        if _UNSPACED.search(token.group()):
            found += _find_in_run(token.group(), token.start(), wanted)
        elif wanted.intersection(analyzer.extract_terms(token.group(), language)):
            found.append(token.span())
    return _merge_overlaps(sorted(found))


def _find_in_run(run: str, start: int, wanted: frozenset[str]) -> Iterator[Span]:
    """Find the terms within text of a script without spaces."""
    for term in wanted:
        at = run.find(term)
        while at >= 0:
            yield start + at, start + at + len(term)
            at = run.find(term, at + 1)


def _merge_overlaps(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


@dataclass(frozen=True, slots=True)
class Excerpt:
    text: str
    marks: tuple[Span, ...]


def make_excerpt(text: str, spans: Sequence[Span], max_chars: int = EXCERPT_CHARS) -> Excerpt:
    """Cut the part of a text with most highlights, at word boundaries."""
    if len(text) <= max_chars:
        return Excerpt(text, tuple(spans))
    start = _best_start(text, spans, max_chars)
    end = min(start + max_chars, len(text))
    if end < len(text):
        end = max(text.rfind(" ", start, end), start + max_chars // 2)
    before, after = "… " if start else "", " …" if end < len(text) else ""
    shift = len(before) - start
    kept = tuple((left + shift, right + shift) for left, right in spans if start <= left and right <= end)
    return Excerpt(f"{before}{text[start:end]}{after}", kept)


def _best_start(text: str, spans: Sequence[Span], max_chars: int) -> int:
    """Return a start a little before the highlight whose window contains the most highlights."""
    if not spans:
        return 0
    counts = [sum(start <= left and right <= start + max_chars for left, right in spans) for start, _ in spans]
    lead = max_chars // 5
    start = spans[counts.index(max(counts))][0] - lead
    if start <= lead:
        return 0
    return text.rfind(" ", 0, min(start, len(text) - max_chars) + 1) + 1


def join_lines(text: str) -> str:
    return " ".join(text.split())
