"""JSON of jobs and crawls: requests, lists, and the crawl report."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal
from uuid import UUID, uuid4

from pydantic import Field

from knowledge.model import Collection, Job, JobFilter, JobKind, JobStatus, Json, ResultPage
from knowledge.model.crawls import MAX_CRAWL_PAGES, Crawl, CrawlCounts, CrawledPage, NewCrawl, PageOutcome
from knowledge.wire.requests import Body, BodyUuid, Listing, omit_defaults
from knowledge.wire.values import dump_collection_ref, load_collection_ref

CONTRACT_002_STATES = {JobStatus.PROCESSING: "running", JobStatus.PARTIAL: "completed"}
"""Job states with a different name in contract 002."""

_JOB_FIELDS = tuple(each.name for each in fields(Job) if each.init)


class CrawlBody(Body):
    url: str = Field(description="Start address, http or https.")
    recursive: bool = Field(False, description="Follow links to other pages of the same site.")
    max_pages: int = Field(10, ge=1, le=MAX_CRAWL_PAGES)
    source_id: int | str | None = Field(None, description="Collection for the pages; a new one is created if omitted.")
    title: str | None = Field(
        None, max_length=200, description="Title of the new collection; defaults to the site name."
    )
    exclude_patterns: list[str] = Field(default_factory=list, description="Addresses to exclude: substrings or globs.")
    job_uid: BodyUuid | None = Field(None, description="Idempotency key: a repeated request starts one crawl.")

    def to_new(self) -> NewCrawl:
        return NewCrawl(
            url=self.url,
            recursive=self.recursive,
            max_pages=self.max_pages,
            collection=None if self.source_id is None else load_collection_ref(self.source_id),
            title=self.title,
            exclude=tuple(self.exclude_patterns),
            job_uid=self.job_uid or uuid4(),
        )


def dump_new_crawl(new: NewCrawl) -> Json:
    return {
        "url": new.url,
        "recursive": new.recursive,
        "max_pages": new.max_pages,
        "source_id": None if new.collection is None else dump_collection_ref(new.collection),
        "title": new.title,
        "exclude_patterns": list(new.exclude),
        "job_uid": str(new.job_uid),
    }


@dataclass(frozen=True)
class CrawlShape:
    """A crawl with the field names of contract 002, plus its job and collection."""

    id: int
    uid: UUID
    source_id: UUID
    url: str
    status: str
    recursive: bool
    max_pages: int
    exclude_patterns: tuple[str, ...]
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
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    job: Job
    collection: Collection | None
    pages: tuple[CrawledPage, ...]

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> CrawlShape:
        job, counts = crawl.job, crawl.counts
        return cls(
            id=job.id,
            uid=job.uid,
            source_id=crawl.collection_uid,
            url=crawl.url,
            status=CONTRACT_002_STATES.get(job.status, job.status.value),
            recursive=crawl.recursive,
            max_pages=crawl.max_pages,
            exclude_patterns=crawl.exclude,
            pages_crawled=counts.crawled,
            pages_failed=counts.failed,
            pages_skipped=counts.skipped,
            pages_removed=counts.removed,
            pages_pending=counts.pending,
            documents_created=counts.created,
            documents_updated=counts.updated,
            documents_unchanged=counts.unchanged,
            total_chunks=counts.chunks,
            total_bytes=counts.bytes,
            created_at=job.created_at,
            started_at=job.started_at,
            completed_at=job.completed_at,
            job=job,
            collection=crawl.collection,
            pages=crawl.pages,
        )

    def to_crawl(self) -> Crawl:
        return Crawl(
            job=self.job,
            url=self.url,
            collection=self.collection,
            collection_uid=self.source_id,
            recursive=self.recursive,
            max_pages=self.max_pages,
            exclude=self.exclude_patterns,
            counts=CrawlCounts(
                created=self.documents_created,
                updated=self.documents_updated,
                unchanged=self.documents_unchanged,
                skipped=self.pages_skipped,
                failed=self.pages_failed,
                removed=self.pages_removed,
                pending=self.pages_pending,
                chunks=self.total_chunks,
                bytes=self.total_bytes,
            ),
            pages=self.pages,
        )


@dataclass(frozen=True)
class CrawlsShape:
    """A page of crawls."""

    crawls: tuple[CrawlShape, ...]
    total: int
    page: int
    per_page: int

    @classmethod
    def from_page(cls, page: ResultPage[Crawl]) -> CrawlsShape:
        return cls(tuple(map(CrawlShape.from_crawl, page.items)), page.total, page.page, page.per_page)

    def to_page(self) -> ResultPage[Crawl]:
        return ResultPage(tuple(crawl.to_crawl() for crawl in self.crawls), self.total, self.page, self.per_page)


@dataclass(frozen=True)
class CrawlPagesShape:
    """A page of the addresses of a crawl."""

    pages: tuple[CrawledPage, ...]
    total: int
    page: int
    per_page: int

    @classmethod
    def from_page(cls, page: ResultPage[CrawledPage]) -> CrawlPagesShape:
        return cls(page.items, page.total, page.page, page.per_page)

    def to_page(self) -> ResultPage[CrawledPage]:
        return ResultPage(self.pages, self.total, self.page, self.per_page)


class CrawlPageListing(Listing):
    outcome: PageOutcome | None = None


class RetryBody(Body):
    status: Literal["failed", "cancelled"] = Field("failed", description="Which jobs to retry.")


@dataclass(frozen=True)
class _JobId:
    """First field of AcceptedShape."""

    job_id: int


@dataclass(frozen=True)
class AcceptedShape(Job, _JobId):
    """The job started by an upload, with its id also as `job_id` (contract 004)."""

    @classmethod
    def from_job(cls, job: Job) -> AcceptedShape:
        return cls(job.id, *(getattr(job, name) for name in _JOB_FIELDS))


@dataclass(frozen=True)
class JobsShape:
    """A page of jobs."""

    jobs: tuple[Job, ...]
    total: int
    page: int
    per_page: int

    @classmethod
    def from_page(cls, page: ResultPage[Job]) -> JobsShape:
        return cls(page.items, page.total, page.page, page.per_page)

    def to_page(self) -> ResultPage[Job]:
        return ResultPage(self.jobs, self.total, self.page, self.per_page)


class JobListing(Listing):
    status: JobStatus | None = None
    kind: JobKind | None = None

    def to_filter(self) -> JobFilter:
        return JobFilter(status=self.status, kind=self.kind, page=self.page, per_page=self.per_page)


def dump_job_filter(wanted: JobFilter) -> dict[str, str]:
    fields = {
        "status": wanted.status,
        "kind": wanted.kind,
        "page": str(wanted.page),
        "per_page": str(wanted.per_page),
    }
    return omit_defaults(fields)
