"""Presentations: each slide a page, with its tables and lists, and the speaker's notes below."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.extract.base import Extracted, PageText, Source
from knowledge.extract.office.facts import office_facts
from knowledge.extract.office.open import open_office
from knowledge.extract.office.ppt_tables import Cell, old_tables, with_tables
from knowledge.extract.office.render import render
from knowledge.model import Json, JsonValue

EDGES, NUMBER = ("dt", "ftr"), "sldNum"
BESIDE_TITLE = 1_000_000
"""In units of which 914,400 are an inch, from the top; slides are 5.6 or 7.5 inches high."""


def extract(source: Source, doc_type: str) -> Extracted:
    with open_office(source, doc_type) as document:
        tree: Json = document.to_ir()
    sections = tree.get("sections")
    slides = sections if isinstance(sections, list) else []
    found = old_tables(source) if doc_type == "ppt" else []
    return Extracted(office_facts(source, doc_type, len(slides)), _pages(slides, found))


def _pages(slides: list[JsonValue], found: list[list[Cell]]) -> Iterator[PageText]:
    shown: set[str] = set()
    for number, slide in enumerate(slides, start=1):
        yield PageText(_slide(slide, number, shown, found) if isinstance(slide, dict) else "", number)


def _slide(slide: Json, number: int, shown: set[str], found: list[list[Cell]]) -> str:
    edges, elements = _parted(slide.get("elements"))
    body = "\n\n".join(with_tables([*render(_in_order(elements))], found))
    if not body.lstrip().startswith("#"):
        title = slide.get("title")
        body = f"## {title if isinstance(title, str) and title.strip() else f'Slide {number}'}\n\n{body}"
    for line in render(edges):
        body += "" if line in shown else f"\n\n{line}"
        shown.add(line)
    notes = "\n\n".join(render(slide.get("speaker_notes")))
    return f"{body}\n\nNotes: {notes}" if notes else body


def _parted(elements: JsonValue) -> tuple[list[JsonValue], list[Json]]:
    """The date and the footer, which stand on every slide and are read on the first; and the rest, without numbers."""
    edges: list[JsonValue] = []
    rest = []
    for element in elements if isinstance(elements, list) else []:
        if isinstance(element, dict):
            role = _role(element)
            if role in EDGES:
                edges.append(element)
            elif role != NUMBER:
                rest.append(element)
    return edges, rest


def _role(element: Json) -> JsonValue:
    content = element.get("content")
    inner = content[0] if element.get("type") == "text_box" and isinstance(content, list) and content else element
    return inner.get("placeholder_role") if isinstance(inner, dict) else None


def _in_order(elements: list[Json]) -> list[JsonValue]:
    """office-oxide goes by height, and puts last what has none of its own because it stands where the layout says.

    That is the body of the slide: it belongs below the title, and above all but what stands beside the title.
    """
    return [*sorted(elements, key=_rank)]


def _rank(element: Json) -> int:
    height = element.get("y_emu")
    if element.get("type") == "heading" or (isinstance(height, int) and height < BESIDE_TITLE):
        return 0
    return 2 if isinstance(height, int) else 1
