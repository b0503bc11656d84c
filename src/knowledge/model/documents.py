"""What is kept: documents, their passages, and the shelves they stand on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from knowledge.model.values import Json


class Kind(StrEnum):
    """What was added."""

    FILE = "file"
    PAGE = "page"
    NOTE = "note"


class DocumentStatus(StrEnum):
    PROCESSING = "processing"
    COMPLETED = "completed"
    PARTIAL = "partial"


class Method(StrEnum):
    """How the text was won."""

    TEXT_EXTRACTION = "text_extraction"
    OCR = "ocr"
    IMAGE_ANALYSIS = "image_analysis"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Document:
    id: int
    uid: UUID
    title: str
    kind: Kind
    doc_type: str
    """The suffix without its dot: pdf, md, note."""
    collection: str
    collection_id: int
    owner: int
    tags: tuple[str, ...]
    metadata: Json
    filename: str | None
    source_path: str | None
    url: str | None
    sha256: str
    size_bytes: int
    status: DocumentStatus
    method: Method
    warnings: tuple[str, ...]
    language: str | None
    page_count: int | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Chunk:
    id: int
    uid: UUID
    document_id: int
    index: int
    text: str
    page: int | None
    section: tuple[str, ...]
    """The headings above this passage, outermost first."""


CATEGORIES = ("legal", "medical", "research", "general", "technical")


@dataclass(frozen=True, slots=True)
class Curation:
    """What makes a collection a corpus."""

    category: str
    version: str = ""
    is_public: bool = False
    is_approved: bool = False
    owner_name: str = ""
    """The owner's username; empty for the local owner."""


@dataclass(frozen=True, slots=True)
class Collection:
    id: int
    uid: UUID
    name: str
    title: str
    owner: int
    description: str
    source_type: str
    """upload, crawl or api, as contract 002 has it."""
    url: str | None
    metadata: Json
    document_count: int
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    curation: Curation | None = None
