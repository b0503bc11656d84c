"""What a format hands over: facts about the document first, then its pages one by one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from knowledge.model import ExtractionMethod, Json


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one document, on disk, and the name they came with."""

    path: Path
    filename: str
    """Only its suffix is of use; it is never a path that is opened."""
    force_ocr: bool = False
    ocr_languages: str = "eng"
    max_unpacked_bytes: int = 200 << 20
    content: bytes | None = None
    """The bytes themselves where no file holds them: an attachment, a member of an archive."""

    @property
    def suffix(self) -> str:
        return Path(self.filename).suffix.lower()

    @property
    def stem(self) -> str:
        return Path(self.filename).stem

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.content is None else len(self.content)

    def open(self) -> BinaryIO:
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def read(self, size: int = -1) -> bytes:
        """Its first bytes, or all of them."""
        with self.open() as file:
            return file.read(size)


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
    method: ExtractionMethod = ExtractionMethod.TEXT_EXTRACTION
    warning: str | None = None
    """Why this page failed, in words; the document is then partial."""


@dataclass(frozen=True, slots=True)
class Extraction:
    facts: Facts
    pages: Iterator[PageText]
    """Read lazily, so that a document never stands in memory as a whole."""
