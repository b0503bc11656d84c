"""The nouns of the product: frozen values that every room shares. They import nothing of ours."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Json: TypeAlias = dict[str, JsonValue]

Ref: TypeAlias = int | UUID
"""How a document, a job or a chunk is named: by its number or by its UUID."""
CollectionRef: TypeAlias = int | UUID | str
"""A collection can also be named by its name."""

DEFAULT_COLLECTION = "documents"

LOCAL_OWNER = 0
"""Owns everything that no account owns."""
SAGE_OWNER = -1
"""Owns the layers of contract 003, which nobody else sees."""

Report: TypeAlias = Callable[[str, int, int], None]
"""Progress goes in as a callable: step, done, total."""


def now() -> datetime:
    return datetime.now(UTC)


def new_uid() -> UUID:
    return uuid.uuid4()


class Kind(StrEnum):
    """What was added."""

    FILE = "file"
    PAGE = "page"
    NOTE = "note"


class DocumentStatus(StrEnum):
    PROCESSING = "processing"
    COMPLETED = "completed"
    PARTIAL = "partial"


class JobStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in (JobStatus.QUEUED, JobStatus.PROCESSING)


class JobKind(StrEnum):
    ADD = "add"
    """A new document, or other bytes for one at the same path."""
    UPDATE = "update"
    """Another text for a note."""
    EMBED = "embed"
    """The same text again under another title."""
    CRAWL = "crawl"


class Method(StrEnum):
    """How the text was won."""

    TEXT_EXTRACTION = "text_extraction"
    OCR = "ocr"
    IMAGE_ANALYSIS = "image_analysis"
    MIXED = "mixed"


class Mode(StrEnum):
    """What a search goes by: words and meaning fused, one of them, or fused and reranked."""

    HYBRID = "hybrid"
    TEXT = "text"
    VECTOR = "vector"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose shelves an engine looks at: one owner's, and single collections of others."""

    owner: int = LOCAL_OWNER
    collections: frozenset[int] = frozenset()


class CallerKind(StrEnum):
    LOCAL = "local"
    """Reached us without a key: over loopback, stdio or the command line."""
    KEY = "key"
    """Bears the operator's own key."""
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking."""

    kind: CallerKind = CallerKind.LOCAL
    owner: int = LOCAL_OWNER
    name: str = ""
    key: str | None = field(default=None, repr=False)
    """An account's own key, to be passed on to a remote engine; never shown."""


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


@dataclass(frozen=True, slots=True)
class Curation:
    """What makes a collection a corpus."""

    category: str
    version: str = ""
    is_public: bool = False
    is_approved: bool = False


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
class JobError:
    code: str
    message: str
    hint: str = ""
    details: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    id: int
    uid: UUID
    kind: JobKind
    owner: int
    filename: str
    status: JobStatus
    step: str
    done: int
    total: int
    error: JobError | None
    warnings: tuple[str, ...]
    document_id: int | None
    document_uid: UUID | None
    chunk_count: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None

    @property
    def progress(self) -> float:
        if self.status in (JobStatus.COMPLETED, JobStatus.PARTIAL):
            return 1.0
        return round(min(self.done / self.total, 0.99), 4) if self.total else 0.0


# -- what comes in ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file on their way in, piece by piece, from the start each time `pieces` is asked for."""

    read: Callable[[], AsyncIterator[bytes]]

    @property
    def pieces(self) -> AsyncIterator[bytes]:
        return self.read()

    @classmethod
    def of(cls, data: bytes) -> Content:
        async def once() -> AsyncIterator[bytes]:
            yield data

        return cls(once)

    @classmethod
    def from_path(cls, path: Path, size: int = 1 << 20) -> Content:
        async def read() -> AsyncIterator[bytes]:
            with path.open("rb") as file:
                while piece := file.read(size):
                    yield piece

        return cls(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    filename: str
    content: Content
    title: str | None = None
    collection: CollectionRef = DEFAULT_COLLECTION
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    source_path: str | None = None
    url: str | None = None
    kind: Kind = Kind.FILE
    """A page of a web site is a file that came from a URL."""
    force_ocr: bool = False
    job_uid: UUID = field(default_factory=new_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote:
    text: str
    title: str | None = None
    collection: CollectionRef = DEFAULT_COLLECTION
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    source_path: str | None = None
    url: str | None = None
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
class DocumentEdit:
    """What is to change; None leaves a thing as it is. Metadata is merged, and a null in it takes a key out."""

    title: str | None = None
    url: str | None = None
    metadata: Json | None = None
    collection: CollectionRef | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionEdit:
    title: str | None = None
    description: str | None = None
    url: str | None = None
    source_type: str | None = None
    metadata: Json | None = None


# -- asking -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Every field narrows; tags are all-of, the others any-of. Dates are UTC and inclusive."""

    collections: tuple[CollectionRef, ...] = ()
    tags: tuple[str, ...] = ()
    doc_types: tuple[str, ...] = ()
    documents: tuple[Ref, ...] = ()
    date_from: datetime | None = None
    date_to: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str
    limit: int = 10
    offset: int = 0
    filter: Filter = Filter()
    mode: Mode = Mode.HYBRID
    threshold: float = 0.0
    budget_ms: int | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    chunk: Chunk
    document: Document
    score: float
    """Calibrated relevance from 0 to 1."""
    matched_by: str
    """words, meaning or both."""
    explanation: Json | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    hits: tuple[Hit, ...]
    total: int
    """How many passages matched, as deep as the search went."""
    mode: Mode
    """The mode really used: words alone where no model is loaded yet."""
    notes: tuple[str, ...] = ()
    """What the caller should know: a mode that fell back, a budget that ran out."""
    explanation: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    collection: CollectionRef | None = None
    tag: str | None = None
    doc_type: str | None = None
    source_path: str | None = None
    sort: str = "created_at"
    """created_at, updated_at, title, filename or size_bytes."""
    descending: bool = True
    page: int = 1
    per_page: int = 50
    offset: int | None = None
    """Instead of a page, where a contract counts that way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    status: JobStatus | None = None
    kind: JobKind | None = None
    page: int = 1
    per_page: int = 50


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    total: int
    page: int = 1
    per_page: int = 50


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes as they came in."""

    filename: str
    size: int
    pieces: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Removed:
    documents: int
    chunks: int
    bytes_freed: int


@dataclass(frozen=True, slots=True)
class ModelStatus:
    name: str
    dimension: int
    device: str
    loaded: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    version: str
    uptime_seconds: float
    data_path: str
    model: ModelStatus
    documents: int
    chunks: int
    collections: int
    queued: int
    processing: int
    failed: int
    database_bytes: int
    files_bytes: int
    index_bytes: int
    issues: tuple[str, ...]
    last_change: datetime | None
    storage_ok: bool = True
    """The data folder can be read and written."""
    index_ok: bool = True
    """The index answers."""
    chunk_size: int = 200
    """How many tokens a passage has at most."""

    @property
    def health(self) -> str:
        return "degraded" if self.issues else "healthy"


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference that `verify` found."""

    part: str
    """store, index or files."""
    message: str


def as_metadata(value: Mapping[str, JsonValue] | None) -> Json:
    return dict(value or {})
