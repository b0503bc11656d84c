"""Input and output of every extractor: the source, the facts about the document, and its pages."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from knowledge.model import ExtractionMethod, Json
from knowledge.model.pages import PageWords


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one document and its file name."""

    path: Path
    filename: str
    """Used for its suffix and in messages; never opened as a path."""
    force_ocr: bool = False
    ocr_languages: str = "eng"
    max_unpacked_bytes: int = 200 << 20
    content: bytes | None = None
    """The bytes of an attachment or archive member; None: they are in the file at path."""

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
        """Read the first size bytes, or all."""
        with self.open() as file:
            return file.read(size)


@dataclass(frozen=True, slots=True)
class Facts:
    """Metadata that is known before the first page is read."""

    doc_type: str
    title: str | None = None
    author: str | None = None
    language: str | None = None
    page_count: int | None = None
    """Number of pages, slides, sheets or chapters; None for formats without pages."""
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CodePart:
    """Lines of a source file that belong together, such as a function, counted from 1."""

    first_line: int
    last_line: int
    section: tuple[str, ...]
    """Names of the definitions around and of it, outermost first."""


@dataclass(frozen=True, slots=True)
class PageText:
    """Markdown of a page, slide, sheet or chapter, or a piece of a format without pages (number None)."""

    text: str
    number: int | None = None
    method: ExtractionMethod = ExtractionMethod.TEXT_EXTRACTION
    warning: str | None = None
    """Reason why the page could not be read; the document is then partial."""
    words: PageWords | None = None
    """The words that OCR found on this page; None for a page that was not recognised."""
    outline: tuple[CodePart, ...] = ()
    """The parts of source code: the text is then one fenced block, and they divide its lines."""


@dataclass(frozen=True, slots=True)
class Extraction:
    facts: Facts
    pages: Iterator[PageText]
    """Lazy, so that a document is never in memory as a whole."""
