"""How the answer to a search looks on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge.model import Answer, Hit, Json, JsonValue, Kind
from knowledge.surfaces.cli.output import highlight
from knowledge.surfaces.cli.output.screen import clean, print_facts, print_table, say, show, styled

if TYPE_CHECKING:
    from rich.text import Text

MARK = "bold yellow"
INDENT = 4


def print_answer(answer: Answer, question: str, full: bool, first: int = 1) -> None:
    for number, hit in enumerate(answer.hits, first):
        print_hit(number, hit, question, full)
    for note in answer.notes:
        say(note)
    if not answer.hits:
        say("Nothing was found.")


def print_hit(number: int, hit: Hit, question: str, full: bool) -> None:
    from rich.padding import Padding

    indent = (0, 0, 0, INDENT)
    text, place = Padding(passage(hit, question, full), indent), Padding(styled(origin(hit), "dim"), indent)
    show(heading(number, hit), text, place, "")


def heading(number: int, hit: Hit) -> Text:
    """Rank, title, page and headings, score."""
    line = styled(f"{number:>2}  ", "bold")
    line.append_text(styled(hit.document.title, "bold cyan"))
    places = [f"page {hit.chunk.page}"] if hit.chunk.page is not None else []
    section = hit.chunk.section[1:] if hit.chunk.section[:1] == (hit.document.title,) else hit.chunk.section
    places += [" › ".join(section)] if section else []
    for place in places:
        line.append_text(styled(f"  {place}", "cyan"))
    line.append_text(styled(f"  {hit.score:.2f}", "green"))
    return line


def passage(hit: Hit, question: str, full: bool) -> Text:
    """The text with the words marked that the question asked for."""
    language = hit.document.language
    text = clean(hit.text.strip() if full else highlight.on_one_line(hit.text))
    spans = highlight.marks(text, highlight.asked_terms(question, language), language)
    shown = highlight.Excerpt(text, tuple(spans)) if full else highlight.excerpt(text, spans)
    line = styled(shown.text)
    for start, end in shown.marks:
        line.stylize(MARK, start, end)
    return line


def origin(hit: Hit) -> str:
    document = hit.document
    name = None if document.kind is Kind.NOTE else document.filename
    where = document.source_path or document.url or name or document.kind.value
    first, last = hit.indexes
    which = f"passage {first}" if first == last else f"passages {first} to {last}"
    return f"{where} · {document.collection} · document {document.id}, {which}"


def print_explanation(answer: Answer) -> None:
    """What each step contributed to each hit, and what the whole cost."""
    rows = [{"#": at, **(hit.explanation or {})} for at, hit in enumerate(answer.hits, 1)]
    print_rows(rows)
    whole = dict(answer.explanation or {})
    steps = whole.pop("steps", [])
    if isinstance(steps, list):
        print_rows([step for step in steps if isinstance(step, dict)])
    print_facts([("matched", answer.total), *((name, cell(value)) for name, value in whole.items())])


def print_rows(rows: Sequence[Json]) -> None:
    """Facts under their names, numbers to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if names and rows:
        numbers = [name for name in names if not any(isinstance(row.get(name), str) for row in rows)]
        print_table(names, [[cell(row.get(name)) for name in names] for row in rows], right=numbers)
        show("")


def cell(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.3f}"
        case list():
            return ", ".join(map(cell, value))
    return str(value)
