"""Presentations: each slide a page, with its tables and lists, and the speaker's notes below."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.extract.base import Extracted, PageText, Source
from knowledge.extract.office import open_office
from knowledge.extract.office_elements import render
from knowledge.extract.office_facts import office_facts
from knowledge.model import Json, JsonValue


def extract(source: Source, doc_type: str) -> Extracted:
    with open_office(source, doc_type) as document:
        tree: Json = document.to_ir()
    sections = tree.get("sections")
    slides = sections if isinstance(sections, list) else []
    return Extracted(office_facts(source, doc_type, len(slides)), _pages(slides))


def _pages(slides: list[JsonValue]) -> Iterator[PageText]:
    for number, slide in enumerate(slides, start=1):
        yield PageText(_slide(slide, number) if isinstance(slide, dict) else "", number)


def _slide(slide: Json, number: int) -> str:
    body = "\n\n".join(render(slide.get("elements")))
    if not body.lstrip().startswith("#"):
        title = slide.get("title")
        body = f"## {title if isinstance(title, str) and title.strip() else f'Slide {number}'}\n\n{body}"
    notes = "\n\n".join(render(slide.get("speaker_notes")))
    return f"{body}\n\nNotes: {notes}" if notes else body
