"""Crawl requests, the outcome of each page, and the crawl report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from knowledge.model import Collection, CollectionRef, Job, new_uid

MAX_CRAWL_PAGES = 100
MAX_URL_CHARS = 2000


class PageOutcome(StrEnum):
    """Outcome of an address."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"
    REMOVED = "removed"
    """Missing in two crawls in a row, so its document was removed."""

    @property
    def is_crawled(self) -> bool:
        return self in (PageOutcome.CREATED, PageOutcome.UPDATED, PageOutcome.UNCHANGED)


class OutcomeReason(StrEnum):
    """Reason why an address was skipped or failed."""

    ROBOTS = "robots"
    OFF_SITE = "off-site"
    EXCLUDED = "excluded"
    DUPLICATE = "duplicate"
    TOO_LARGE = "too large"
    UNSUPPORTED = "unsupported type"
    HTTP_STATUS = "HTTP status"
    EMPTY = "empty after extraction"
    BROWSER = "needs a browser"
    REDIRECT = "redirected"
    TRAP = "endless path"
    FORBIDDEN = "forbidden address"
    UNREACHABLE = "unreachable"
    TOO_SLOW = "too slow"
    UNREADABLE = "unreadable"
    LIMIT = "limit of the crawl"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCrawl:
    url: str
    recursive: bool = False
    max_pages: int = 10
    collection: CollectionRef | None = None
    """None creates a new collection named after the site."""
    title: str | None = None
    exclude: tuple[str, ...] = ()
    job_uid: UUID = field(default_factory=new_uid)


@dataclass(frozen=True, slots=True)
class CrawledPage:
    url: str
    outcome: PageOutcome
    reason: OutcomeReason | None = None
    detail: str = ""
    """One sentence for people."""
    http_status: int | None = None
    document_id: int | None = None
    document_uid: UUID | None = None
    chunk_count: int = 0


@dataclass(frozen=True, slots=True)
class CrawlCounts:
    """Number of addresses by outcome, and totals."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    removed: int = 0
    pending: int = 0
    chunks: int = 0
    bytes: int = 0
    """Fetched bytes after decompression."""

    @property
    def crawled(self) -> int:
        return self.created + self.updated + self.unchanged


@dataclass(frozen=True, slots=True)
class Crawl:
    """The current state of a crawl; `pages` is empty in lists."""

    job: Job
    url: str
    collection: Collection | None
    """None if the collection was removed."""
    collection_uid: UUID
    recursive: bool
    max_pages: int
    exclude: tuple[str, ...]
    counts: CrawlCounts
    pages: tuple[CrawledPage, ...] = ()
