"""Documents, their chunks and collections: as they are kept, as they are added, and how they are edited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from knowledge.model.values import DEFAULT_COLLECTION, CollectionRef, Json, new_uid

CATEGORIES = ("legal", "medical", "research", "general", "technical")


class DocumentKind(StrEnum):
    """What was added."""

    FILE = "file"
    PAGE = "page"
    NOTE = "note"


class DocumentStatus(StrEnum):
    PROCESSING = "processing"
    COMPLETED = "completed"
    PARTIAL = "partial"


class ExtractionMethod(StrEnum):
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
    kind: DocumentKind
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
    method: ExtractionMethod
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


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file on their way in, piece by piece, from the start each time `pieces` is asked for."""

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
    """What a caller says about a document beside its content; all of it is kept with the document."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    source_path: str | None = None
    url: str | None = None

    def dump_description(self) -> dict[str, Any]:
        """The fields of the description alone, by name."""
        return {name: getattr(self, name) for name in DESCRIPTION_FIELDS}


DESCRIPTION_FIELDS = tuple(each.name for each in fields(Description))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile(Description):
    filename: str
    content: Content
    collection: CollectionRef = DEFAULT_COLLECTION
    kind: DocumentKind = DocumentKind.FILE
    """A page of a web site is a file that came from a URL."""
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
    """Made from the title when it is not given."""
    description: str = ""
    source_type: str = "upload"
    url: str | None = None
    metadata: Json = field(default_factory=dict)
    uid: UUID = field(default_factory=new_uid)
    """Made by the caller, so that to ask twice makes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCorpus:
    title: str
    """What contract 001 calls display_name."""
    name: str | None = None
    """Made from the title when it is not given."""
    description: str = ""
    category: str = "general"
    version: str = ""
    is_public: bool = False
    uid: UUID = field(default_factory=new_uid)
    """Made by the caller, so that to ask twice makes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEdit:
    """What is to change; None leaves a thing as it is. Metadata is merged, and a null in it takes a key out."""

    title: str | None = None
    url: str | None = None
    source_path: str | None = None
    """Where its file lies now; the name of the file goes along, and nothing is read again."""
    metadata: Json | None = None
    collection: CollectionRef | None = None
    moved_from: str | None = None
    """Where it stands until now; an engine elsewhere is then told of the move by tags, the old out and the new in."""
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()

    def changed_fields(self) -> Json:
        """What is to change beside the collection and the tags, by name."""
        moving = ("collection", "moved_from", "add_tags", "remove_tags")
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in moving}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionEdit:
    title: str | None = None
    description: str | None = None
    url: str | None = None
    source_type: str | None = None
    metadata: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusEdit:
    """What is to change; None leaves a thing as it is."""

    title: str | None = None
    description: str | None = None
    category: str | None = None
    version: str | None = None
    is_public: bool | None = None
