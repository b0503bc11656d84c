"""Drawn pages of a document, the words on them, and the places of its passages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

PAGE_WIDTHS = (900, 1600)
"""Widths in pixels in which a page is drawn."""
THUMBNAIL_WIDTH = 240
DRAWING_VERSION = 1
"""Raised when pages are drawn differently, so that browsers and the cache do not keep the old pictures."""
MAX_PAGES_PER_ANSWER = 500

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom as shares (0 to 1) of the page, from its top left corner."""


class WordSource(StrEnum):
    TEXT = "text"
    """The text layer of a PDF."""
    OCR = "ocr"
    NONE = "none"
    """No words are known for this page."""


class PlacesNote(StrEnum):
    """Why passages have no boxes."""

    READ_BEFORE_BOXES = "read_before_boxes"
    """The document was recognised by OCR before the server stored where each word is."""
    NO_PAGES = "no_pages"


@dataclass(frozen=True, slots=True)
class PageSize:
    page: int
    """From 1."""
    width: float
    """Points of a PDF page, pixels of an image."""
    height: float


@dataclass(frozen=True, slots=True)
class DocumentPages:
    page_count: int
    pages: tuple[PageSize, ...]


@dataclass(frozen=True, slots=True)
class PageImage:
    """A drawn page, encoded as WebP."""

    data: bytes
    etag: str
    """Strong entity tag without its quotes."""


@dataclass(frozen=True, slots=True)
class PageWord:
    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class PageWords:
    """The words of a page in the order in which they are stored in the file."""

    page: int
    width: float
    height: float
    words: tuple[PageWord, ...]
    source: WordSource


@dataclass(frozen=True, slots=True)
class Place:
    """The boxes of one chunk on one page, one per line."""

    chunk: int
    page: int
    width: float
    height: float
    coverage: float
    """Share of the chunk's letters that were found, on all its pages together."""
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Places:
    places: tuple[Place, ...]
    note: PlacesNote | None = None


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A heading of a document, and the chunk that begins its section."""

    title: str
    level: int
    """From 1."""
    chunk: int
    page: int | None


def make_page_etag(sha256: str, page: int, width: int) -> str:
    """Return the entity tag of a drawn page, which is known before the page is drawn."""
    return f"{sha256[:32]}-{page}-{width}-{DRAWING_VERSION}"
