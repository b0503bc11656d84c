"""The tools crawl_website and manage_crawl_job."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.errors import InvalidParameter, JobNotFound, NotNow
from knowledge.model import CollectionRef, Json, JsonValue
from knowledge.model.crawls import MAX_CRAWL_PAGES, Crawl, CrawledPage, NewCrawl, PageOutcome
from knowledge.toolsets.arguments import Identifier
from knowledge.toolsets.base import RateClass, ToolCall
from knowledge.toolsets.rag.errors import (
    MAX_ITEMS,
    MAX_TITLE_CHARS,
    clamp,
    raise_missing_parameter,
    tools,
    truncate_text,
    unknown_action_error,
)
from knowledge.toolsets.rag.sources import find_source
from knowledge.toolsets.values import format_status, format_timestamp, parse_ref

ACTIONS = ("get", "list", "cancel")


@tools.tool("crawl_website", title="Crawl a website", rate=RateClass.UPLOAD, open_world=True)
async def crawl_website(
    call: ToolCall,
    url: Annotated[str, Field(description="Starting URL to crawl", max_length=2000)],
    recursive: Annotated[bool, Field(description="Follow links to other pages (default False)")] = False,
    max_pages: Annotated[int, Field(description="Maximum number of pages to crawl (max 100)")] = 10,
    source_id: Annotated[
        Identifier | None, Field(description="Existing source to add to (creates new if not provided)")
    ] = None,
    title: Annotated[
        str | None,
        Field(description="Source title if creating new (defaults to website domain)", max_length=MAX_TITLE_CHARS),
    ] = None,
    exclude_patterns: Annotated[
        list[str] | None, Field(description='URL patterns to skip (e.g., ["/archive/", "/tag/"]); globs work too')
    ] = None,
) -> Json:
    """Crawl a website and ingest content. Returns immediately; use manage_crawl_job to check progress."""
    if not url.strip().lower().startswith(("http://", "https://")):
        raise InvalidParameter(
            "Invalid URL: must start with http:// or https://",
            hint="Provide fully qualified URL: crawl_website(url='https://...')", parameter="url",
        )  # fmt: skip
    collection: CollectionRef | None = None
    if source_id is not None:
        collection = (await find_source(call.engine, source_id)).id
    new = NewCrawl(
        url=url, recursive=recursive, max_pages=clamp(max_pages, MAX_CRAWL_PAGES), collection=collection, title=title,
        exclude=tuple(exclude_patterns or ()),
    )  # fmt: skip
    job = await call.engine.crawl(new)
    report = await call.engine.crawl_report(job.id)
    return {
        "success": True, "crawl_job": {**dump_started(report), "status": "running"},
        "message": "Crawl job started, use manage_crawl_job to check progress: "
        f"manage_crawl_job(action='get', job_id='{job.uid}')",
    }  # fmt: skip


@tools.tool("manage_crawl_job", title="Manage crawl jobs", rate=RateClass.MANAGEMENT)
async def manage_crawl_job(
    call: ToolCall,
    action: Annotated[str, Field(description='Operation - "get", "list", "cancel"')],
    job_id: Annotated[Identifier | None, Field(description="Crawl job UUID for get/cancel")] = None,
    page: Annotated[int, Field(description="Page number of the jobs, or of the URLs of one job")] = 1,
    per_page: Annotated[int, Field(description="Items per page (max 20)")] = 10,
) -> Json:
    """Manage crawl jobs: get (progress, and outcome and reason for each URL), list, cancel."""
    page, per_page = max(page, 1), clamp(per_page, MAX_ITEMS)
    match action:
        case "list":
            return await _list_crawls(call.engine, page, per_page)
        case "get" | "cancel" if not job_id:
            raise_missing_parameter(
                "job_id", action, f"Provide job_id: manage_crawl_job(action='{action}', job_id='...')"
            )
        case "get":
            crawl = await find_crawl(call.engine, str(job_id))
            return {"success": True, "crawl_job": dump_details(crawl, page, per_page), "message": describe_crawl(crawl)}
        case "cancel":
            return await _cancel_crawl(call.engine, str(job_id))
    raise unknown_action_error(action, ACTIONS)


async def _list_crawls(engine: Engine, page: int, per_page: int) -> Json:
    found = await engine.crawls(page, per_page)
    return {
        "success": True, "crawl_jobs": [dump_progress(crawl) for crawl in found.items], "total_count": found.total,
        "count": len(found.items), "page": page, "per_page": per_page,
    }  # fmt: skip


async def _cancel_crawl(engine: Engine, job_id: str) -> Json:
    crawl = await find_crawl(engine, job_id)
    try:
        await engine.cancel(crawl.job.id)
    except NotNow:
        ended = await engine.crawl_report(crawl.job.id)
        raise InvalidParameter(
            f"Crawl job {job_id} has already ended with status {format_status(ended.job.status)}",
            hint=f"Use manage_crawl_job(action='get', job_id='{job_id}') to see its result", parameter="job_id",
        ) from None  # fmt: skip
    stopped = await engine.crawl_report(crawl.job.id)
    return {"success": True, "crawl_job": dump_progress(stopped), "message": describe_cancelled(stopped)}


async def find_crawl(engine: Engine, job_id: str) -> Crawl:
    ref = parse_ref(job_id)
    if ref is not None:
        try:
            return await engine.crawl_report(ref)
        except JobNotFound:
            pass
    raise JobNotFound(f"Crawl job not found: {job_id}", job_id=job_id)


def dump_started(crawl: Crawl) -> Json:
    return {
        "id": str(crawl.job.uid),
        "source_id": str(crawl.collection_uid),
        "url": crawl.url,
        "status": format_status(crawl.job.status),
        "pages_crawled": crawl.counts.crawled,
        "pages_pending": crawl.counts.pending or int(not crawl.job.status.has_ended),
        "max_pages": crawl.max_pages,
        "recursive": crawl.recursive,
        "created_at": format_timestamp(crawl.job.created_at),
    }


def dump_progress(crawl: Crawl) -> Json:
    """Return the progress and the counts of a crawl."""
    job, counts = crawl.job, crawl.counts
    body: Json = {
        **dump_started(crawl), "pages_pending": counts.pending, "pages_failed": counts.failed,
        "pages_skipped": counts.skipped, "pages_removed": counts.removed, "documents_created": counts.created,
        "documents_updated": counts.updated, "documents_unchanged": counts.unchanged, "total_chunks": counts.chunks,
        "started_at": format_timestamp(job.started_at) if job.started_at else None,
        "completed_at": format_timestamp(job.completed_at) if job.completed_at else None,
    }  # fmt: skip
    if job.error is not None:
        body["error_message"] = job.error.message
    return body


def dump_details(crawl: Crawl, page: int, per_page: int) -> Json:
    """Return the progress of a crawl with one page of its URLs, failed ones first."""
    ordered = sorted(crawl.pages, key=lambda each: WORST_FIRST.index(each.outcome))
    shown: list[JsonValue] = [_dump_page(each) for each in ordered[(page - 1) * per_page :][:per_page]]
    counted = Counter(str(each.reason) for each in crawl.pages if each.reason)
    reasons: Json = dict(counted.most_common())
    body: Json = {
        **dump_progress(crawl),
        "current_step": crawl.job.step,
        "exclude_patterns": list(crawl.exclude),
        "reasons": reasons,
        "pages": shown,
        "pages_total": len(crawl.pages),
        "page": page,
        "per_page": per_page,
    }
    return {**body, "warnings": list(crawl.job.warnings)} if crawl.job.warnings else body


WORST_FIRST = (
    PageOutcome.FAILED,
    PageOutcome.REMOVED,
    PageOutcome.SKIPPED,
    PageOutcome.CREATED,
    PageOutcome.UPDATED,
    PageOutcome.UNCHANGED,
)


def _dump_page(page: CrawledPage) -> Json:
    return {
        "url": page.url, "outcome": page.outcome.value, "reason": page.reason.value if page.reason else None,
        "detail": truncate_text(page.detail), "http_status": page.http_status,
        "document_id": str(page.document_uid) if page.document_uid else None, "chunks": page.chunk_count,
    }  # fmt: skip


def describe_cancelled(crawl: Crawl) -> str:
    return f"Crawl cancelled: {crawl.counts.crawled} pages that were already ingested are kept"


def describe_crawl(crawl: Crawl) -> str:
    counts = crawl.counts
    match format_status(crawl.job.status):
        case "completed":
            return f"Crawl completed: {counts.crawled} pages crawled, {counts.created} documents created"
        case "failed":
            reason = crawl.job.error.message if crawl.job.error else "unknown reason"
            return f"Crawl failed: {reason}"
        case "cancelled":
            return describe_cancelled(crawl)
        case other:
            return f"Crawl {other}: {counts.crawled} of at most {crawl.max_pages} pages crawled"
