"""What the answers of /api/v1 look like. The dumps are checked against these, and the OpenAPI document shows them."""

from __future__ import annotations

from pydantic import JsonValue
from typing_extensions import TypedDict


class ErrorFacts(TypedDict):
    code: str
    message: str
    hint: str
    details: dict[str, JsonValue]


class ErrorShape(TypedDict):
    error: ErrorFacts


class HealthShape(TypedDict, total=False):
    status: str
    version: str


class DocumentFacts(TypedDict):
    """What a document and a hit both say about the document."""

    title: str
    kind: str
    doc_type: str
    collection: str
    collection_id: int
    owner: int
    tags: list[str]
    metadata: dict[str, JsonValue]
    filename: str | None
    source_path: str | None
    url: str | None
    sha256: str
    size_bytes: int
    status: str
    method: str
    warnings: list[str]
    language: str | None
    page_count: int | None
    chunk_count: int
    created_at: str
    updated_at: str


class DocumentShape(DocumentFacts):
    id: int
    uid: str


class ChunkShape(TypedDict):
    id: int
    uid: str
    index: int
    text: str
    page: int | None
    section_header: str | None
    section: list[str]


class DocumentWithChunksShape(DocumentShape):
    chunks: list[ChunkShape]


class DocumentsShape(TypedDict):
    documents: list[DocumentShape]
    total: int
    page: int
    per_page: int


class ChunkMetadataShape(TypedDict):
    page: int | None
    section_header: str | None
    section: list[str]


class HitShape(DocumentFacts):
    chunk_id: int
    chunk_uid: str
    document_id: int
    document_uid: str
    score: float
    matched_by: str
    text: str
    chunk_index: int
    chunk_indexes: list[int]
    chunk_text: str | None
    chunk_metadata: ChunkMetadataShape
    explanation: dict[str, JsonValue] | None


class AnswerShape(TypedDict):
    query: str
    results: list[HitShape]
    total_matches: int
    returned: int
    mode: str
    notes: list[str]
    explanation: dict[str, JsonValue] | None


class JobErrorShape(TypedDict):
    code: str
    message: str
    hint: str
    details: dict[str, JsonValue]


class JobShape(TypedDict):
    id: int
    uid: str
    kind: str
    owner: int
    filename: str
    status: str
    progress: float
    step: str
    done: int
    total: int
    error: JobErrorShape | None
    warnings: list[str]
    document_id: int | None
    document_uid: str | None
    chunk_count: int
    created_at: str
    started_at: str | None
    completed_at: str | None


class AcceptedShape(JobShape):
    job_id: int


class JobsShape(TypedDict):
    jobs: list[JobShape]
    total: int
    page: int
    per_page: int


class CurationShape(TypedDict):
    category: str
    version: str
    is_public: bool
    is_approved: bool
    owner_name: str


class CollectionShape(TypedDict):
    id: int
    uid: str
    name: str
    title: str
    owner: int
    description: str
    source_type: str
    url: str | None
    metadata: dict[str, JsonValue]
    document_count: int
    chunk_count: int
    created_at: str
    updated_at: str
    curation: CurationShape | None


class CollectionsShape(TypedDict):
    collections: list[CollectionShape]
    total: int
    page: int
    per_page: int


class CrawledPageShape(TypedDict):
    url: str
    outcome: str
    reason: str | None
    detail: str
    http_status: int | None
    document_id: int | None
    document_uid: str | None
    chunk_count: int


class CrawlShape(TypedDict):
    """A crawl in the words of contract 002; its job and its source are beside it as the other calls have them."""

    id: int
    uid: str
    source_id: str
    url: str
    status: str
    recursive: bool
    max_pages: int
    exclude_patterns: list[str]
    pages_crawled: int
    pages_failed: int
    pages_skipped: int
    pages_removed: int
    pages_pending: int
    documents_created: int
    documents_updated: int
    documents_unchanged: int
    total_chunks: int
    total_bytes: int
    created_at: str
    started_at: str | None
    completed_at: str | None
    job: JobShape
    collection: CollectionShape | None
    pages: list[CrawledPageShape]


class CrawlsShape(TypedDict):
    crawls: list[CrawlShape]
    total: int
    page: int
    per_page: int


class RemovedShape(TypedDict):
    documents: int
    chunks: int
    bytes_freed: int


class NextModelShape(TypedDict):
    name: str
    left: int | None
    error: str | None


class ModelStatusShape(TypedDict):
    name: str
    dimension: int
    device: str
    loaded: bool
    error: str | None
    next: NextModelShape | None


class QueueShape(TypedDict):
    queued: int
    processing: int
    failed: int


class StorageShape(TypedDict):
    database_bytes: int
    files_bytes: int
    index_bytes: int


class HealthReportShape(TypedDict):
    status: str
    issues: list[str]
    storage_ok: bool
    index_ok: bool


class StatusShape(TypedDict):
    version: str
    uptime_seconds: float
    data_path: str
    model: ModelStatusShape
    documents: int
    chunks: int
    collections: int
    queue: QueueShape
    storage: StorageShape
    health: HealthReportShape
    chunk_size: int
    last_change: str | None


class FindingShape(TypedDict):
    part: str
    message: str
    hint: str
    document_id: int | None


class FindingsShape(TypedDict):
    clean: bool
    findings: list[FindingShape]


class AccountShape(TypedDict):
    id: int
    uid: str
    username: str
    is_admin: bool
    is_disabled: bool
    created_at: str


class AccountsShape(TypedDict):
    accounts: list[AccountShape]


class ApiKeyShape(TypedDict):
    id: int
    name: str
    prefix: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class ApiKeysShape(TypedDict):
    api_keys: list[ApiKeyShape]


class IssuedKeyShape(ApiKeyShape):
    """The only time that `api_key` is shown."""

    username: str
    api_key: str


class CorpusShape(TypedDict):
    id: int
    uid: str
    name: str
    display_name: str
    description: str
    category: str
    version: str
    is_public: bool
    is_approved: bool
    owner: str
    owner_id: int
    document_count: int
    chunk_count: int
    source_type: str
    url: str | None
    metadata: dict[str, JsonValue]
    created_at: str
    updated_at: str


class CorpusesShape(TypedDict):
    corpuses: list[CorpusShape]
    total: int
    page: int
    per_page: int


class PermissionShape(TypedDict):
    username: str
    permission: str


class PermissionsShape(TypedDict):
    permissions: list[PermissionShape]


class DoneShape(TypedDict):
    status: str
