"""What a format hands over: facts about the document first, then its pages one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.model import Json, Method


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one document, on disk, and the name they came with."""

    path: Path
    filename: str
    """Only its suffix is of use; it is never a path that is opened."""
    force_ocr: bool = False
    ocr_languages: str = "eng"
    max_unpacked_bytes: int = 200 << 20


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known before the first page is read."""

    doc_type: str
    title: str | None = None
    author: str | None = None
    language: str | None = None
    page_count: int | None = None
    """Pages, slides, sheets or chapters; None where there is no such thing."""
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageText:
    """The Markdown of one page (or slide, sheet, chapter); long texts without pages come in pieces, number None."""

    text: str
    number: int | None = None
    method: Method = Method.TEXT_EXTRACTION
    warning: str | None = None
    """Why this page failed, in words; the document is then partial."""


@dataclass(frozen=True, slots=True)
class Extracted:
    facts: Facts
    pages: Iterator[PageText]
    """Read lazily, so that a document never stands in memory as a whole."""
