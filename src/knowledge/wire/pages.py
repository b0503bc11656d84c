"""JSON of the pages of a document; the types of `model/pages.py` with the same fields in JSON need no shape here."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.model.pages import OutlineEntry


@dataclass(frozen=True)
class OutlineShape:
    """The headings of a document, each with the first chunk and page of its section."""

    outline: tuple[OutlineEntry, ...]
