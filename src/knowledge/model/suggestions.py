"""Suggestions: titles, headings, collections and tags that begin with what a person typed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class SuggestionKind(StrEnum):
    DOCUMENT = "document"
    SECTION = "section"
    COLLECTION = "collection"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class Suggestion:
    kind: SuggestionKind
    text: str
    document_uid: UUID | None = None
    chunk_index: int | None = None
    """First chunk of a section."""
