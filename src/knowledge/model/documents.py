"""Documents, chunks and collections: stored, new and edited."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from knowledge.model.values import DEFAULT_COLLECTION, Access, CollectionRef, Json, new_uid

CATEGORIES = ("legal", "medical", "research", "general", "technical")


class DocumentKind(StrEnum):
    FILE = "file"
    PAGE = "page"
    NOTE = "note"


class DocumentStatus(StrEnum):
    PROCESSING = "processing"
    COMPLETED = "completed"
    PARTIAL = "partial"


class ExtractionMethod(StrEnum):
    """Method of text extraction."""

    TEXT_EXTRACTION = "text_extraction"
    OCR = "ocr"
    IMAGE_ANALYSIS = "image_analysis"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Document:
    id: int
    uid: UUID
    title: str
    kind: DocumentKind
    doc_type: str
    """File suffix without the dot, or note."""
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
    method: ExtractionMethod
    warnings: tuple[str, ...]
    language: str | None
    page_count: int | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    added_by: str | None = None
    """Username of the account that added the content; None for the local owner."""
    vector_count: int | None = None
    """Chunks with a vector of the model in use; the others are found by words only. None in search hits."""
    access: Access | None = None
    """What the caller may do with it; None in search hits."""

    @property
    def revision(self) -> str:
        """Identify what an editor may change: the content, title, addresses, metadata, tags and collection.

        It has no times in it, so it is the same on every server and after work in the background.
        """
        facts = [
            self.sha256, self.title, self.url, self.source_path, self.metadata, list(self.tags), self.collection_id,
        ]  # fmt: skip
        return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Chunk:
    id: int
    uid: UUID
    document_id: int
    index: int
    text: str
    page: int | None
    section: tuple[str, ...]
    """Headings above the chunk, outermost first; of source code the names of the definitions around it."""
    lines: tuple[int, int] | None = None
    """First and last line in a source file, counted from 1; None for other documents."""


@dataclass(frozen=True, slots=True)
class Curation:
    """The additional fields of a corpus."""

    category: str
    version: str = ""
    is_public: bool = False
    is_approved: bool = False
    owner_name: str = ""
    """Username of the owner; empty for the local owner."""
    declined: str | None = None
    """The reason of the admin who declined to approve it, which may be empty; None if nobody has."""


@dataclass(frozen=True, slots=True)
class Collection:
    id: int
    uid: UUID
    name: str
    title: str
    owner: int
    description: str
    source_type: str
    """upload, crawl or api (contract 002)."""
    url: str | None
    metadata: Json
    document_count: int
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    curation: Curation | None = None
    trusted: bool = False
    """Whether its owner vouches for all its documents."""
    access: Access | None = None
    """What the caller may do with it; None in lists of corpora."""


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of an upload as an iterator that can be started again."""

    read: Callable[[], AsyncIterator[bytes]]

    @property
    def pieces(self) -> AsyncIterator[bytes]:
        return self.read()

    @classmethod
    def from_bytes(cls, data: bytes) -> Content:
        async def once() -> AsyncIterator[bytes]:
            yield data

        return cls(once)

    @classmethod
    def from_path(cls, path: Path, piece_bytes: int = 1 << 20) -> Content:
        async def read() -> AsyncIterator[bytes]:
            with path.open("rb") as file:
                while piece := file.read(piece_bytes):
                    yield piece

        return cls(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Metadata that a caller gives with a document."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    source_path: str | None = None
    url: str | None = None

    def dump_description(self) -> dict[str, Any]:
        """Return only the fields of Description, by name."""
        return {name: getattr(self, name) for name in DESCRIPTION_FIELDS}


DESCRIPTION_FIELDS = tuple(each.name for each in fields(Description))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile(Description):
    filename: str
    content: Content
    collection: CollectionRef = DEFAULT_COLLECTION
    kind: DocumentKind = DocumentKind.FILE
    """FILE, or PAGE for a file fetched from a web site."""
    force_ocr: bool = False
    job_uid: UUID = field(default_factory=new_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote(Description):
    text: str
    collection: CollectionRef = DEFAULT_COLLECTION
    job_uid: UUID = field(default_factory=new_uid)


NewDocument: TypeAlias = NewFile | NewNote


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCollection:
    title: str
    name: str | None = None
    """Derived from the title if None."""
    description: str = ""
    source_type: str = "upload"
    url: str | None = None
    metadata: Json = field(default_factory=dict)
    uid: UUID = field(default_factory=new_uid)
    """Idempotency key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCorpus:
    title: str
    """display_name in contract 001."""
    name: str | None = None
    """Derived from the title if None."""
    description: str = ""
    category: str = "general"
    version: str = ""
    is_public: bool = False
    uid: UUID = field(default_factory=new_uid)
    """Idempotency key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEdit:
    """Changes to a document; None leaves a field unchanged, metadata is merged, and null in it removes a key."""

    title: str | None = None
    url: str | None = None
    source_path: str | None = None
    """New path of the file, which also changes the file name; the content is not read again."""
    metadata: Json | None = None
    collection: CollectionRef | None = None
    moved_from: str | None = None
    """Current collection, for a move in one request: docs/decisions/0006-a-move-is-one-request.md"""
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    expected: str | None = None
    """Revision that the caller has read; DocumentChanged is raised if the document has another one."""

    def changed_fields(self) -> Json:
        """Return the fields to change, other than collection and tags."""
        moving = ("collection", "moved_from", "add_tags", "remove_tags", "expected")
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in moving}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionEdit:
    title: str | None = None
    description: str | None = None
    url: str | None = None
    source_type: str | None = None
    metadata: Json | None = None
    trusted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusEdit:
    """Changes to a corpus; None leaves a field unchanged."""

    title: str | None = None
    description: str | None = None
    category: str | None = None
    version: str | None = None
    is_public: bool | None = None


@dataclass(frozen=True, slots=True)
class ReviewedPart:
    """A document of another owner with some of its chunks, for an admin who approves it."""

    document: Document
    chunks: tuple[Chunk, ...]
