"""Crawls: what is asked for, and the report."""

from __future__ import annotations

from uuid import UUID, uuid4

from pydantic import Field

from knowledge.model import JobStatus, Json, Page
from knowledge.model.crawls import (
    MOST_PAGES,
    Counts,
    Crawl,
    CrawledPage,
    NewCrawl,
    Outcome,
    Reason,
)
from knowledge.wire.collections import dump_collection, load_collection
from knowledge.wire.jobs import dump_job, load_job
from knowledge.wire.search import Body
from knowledge.wire.shapes import CrawledPageShape, CrawlShape, CrawlsShape
from knowledge.wire.values import dump_collection_ref, dump_moment, dump_moment_or_none, load_collection_ref

STATES = {JobStatus.PROCESSING: "running", JobStatus.PARTIAL: "completed"}
"""Where contract 002 has another word for a job's state."""


class CrawlBody(Body):
    url: str = Field(description="Where to begin: http or https.")
    recursive: bool = Field(False, description="Follow links to other pages of the same site.")
    max_pages: int = Field(10, ge=1, le=MOST_PAGES)
    source_id: int | str | None = Field(
        None, description="The collection that takes the pages; a new one if not given."
    )
    title: str | None = Field(None, max_length=200, description="The title of a new collection; else the site's name.")
    exclude_patterns: list[str] = Field(default_factory=list, description="Addresses to leave out: parts, or globs.")
    job_uid: UUID | None = Field(None, description="Made by the caller, so that the call may be repeated.")

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


def dump_crawl(crawl: Crawl) -> CrawlShape:
    job, counts = crawl.job, crawl.counts
    return {
        "id": job.id,
        "uid": str(job.uid),
        "source_id": str(crawl.collection_uid),
        "url": crawl.url,
        "status": STATES.get(job.status, job.status.value),
        "recursive": crawl.recursive,
        "max_pages": crawl.max_pages,
        "exclude_patterns": list(crawl.exclude),
        "pages_crawled": counts.crawled,
        "pages_failed": counts.failed,
        "pages_skipped": counts.skipped,
        "pages_removed": counts.removed,
        "pages_pending": counts.pending,
        "documents_created": counts.created,
        "documents_updated": counts.updated,
        "documents_unchanged": counts.unchanged,
        "total_chunks": counts.chunks,
        "total_bytes": counts.bytes,
        "created_at": dump_moment(job.created_at),
        "started_at": dump_moment_or_none(job.started_at),
        "completed_at": dump_moment_or_none(job.completed_at),
        "job": dump_job(job),
        "collection": None if crawl.collection is None else dump_collection(crawl.collection),
        "pages": [_dump_page(page) for page in crawl.pages],
    }


def load_crawl(data: CrawlShape) -> Crawl:
    return Crawl(
        job=load_job(data["job"]),
        url=data["url"],
        collection=None if data["collection"] is None else load_collection(data["collection"]),
        collection_uid=UUID(data["source_id"]),
        recursive=data["recursive"],
        max_pages=data["max_pages"],
        exclude=tuple(data["exclude_patterns"]),
        counts=Counts(
            created=data["documents_created"],
            updated=data["documents_updated"],
            unchanged=data["documents_unchanged"],
            skipped=data["pages_skipped"],
            failed=data["pages_failed"],
            removed=data["pages_removed"],
            pending=data["pages_pending"],
            chunks=data["total_chunks"],
            bytes=data["total_bytes"],
        ),
        pages=tuple(map(_load_page, data["pages"])),
    )


def dump_crawls(page: Page[Crawl]) -> CrawlsShape:
    items = [dump_crawl(crawl) for crawl in page.items]
    return {"crawls": items, "total": page.total, "page": page.page, "per_page": page.per_page}


def load_crawls(data: CrawlsShape) -> Page[Crawl]:
    return Page(tuple(map(load_crawl, data["crawls"])), data["total"], data["page"], data["per_page"])


def _dump_page(page: CrawledPage) -> CrawledPageShape:
    return {
        "url": page.url,
        "outcome": page.outcome,
        "reason": page.reason,
        "detail": page.detail,
        "http_status": page.http_status,
        "document_id": page.document_id,
        "document_uid": None if page.document_uid is None else str(page.document_uid),
        "chunk_count": page.chunk_count,
    }


def _load_page(data: CrawledPageShape) -> CrawledPage:
    return CrawledPage(
        url=data["url"],
        outcome=Outcome(data["outcome"]),
        reason=None if data["reason"] is None else Reason(data["reason"]),
        detail=data["detail"],
        http_status=data["http_status"],
        document_id=data["document_id"],
        document_uid=None if data["document_uid"] is None else UUID(data["document_uid"]),
        chunk_count=data["chunk_count"],
    )
