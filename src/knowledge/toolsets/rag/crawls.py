"""crawl_website starts a crawl; manage_crawl_job tells how it goes and stops it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.errors import InvalidParameter, JobNotFound, NotNow
from knowledge.model import CollectionRef, JobStatus, Json, JsonValue
from knowledge.model.crawls import MOST_PAGES, Crawl, CrawledPage, NewCrawl, Outcome
from knowledge.toolsets.arguments import Identifier
from knowledge.toolsets.base import Call, Rate
from knowledge.toolsets.rag.errors import (
    LONGEST_TITLE,
    MOST_ITEMS,
    as_ref,
    bounded,
    cut,
    required,
    stamp,
    tools,
    unknown_action,
)
from knowledge.toolsets.rag.sources import find_source

ACTIONS = ("get", "list", "cancel")
STATES = {JobStatus.PROCESSING: "running", JobStatus.PARTIAL: "completed"}


@tools.tool("crawl_website", rate=Rate.UPLOAD, open_world=True)
async def crawl_website(
    call: Call,
    url: Annotated[str, Field(description="Starting URL to crawl", max_length=2000)],
    recursive: Annotated[bool, Field(description="Follow links to other pages (default False)")] = False,
    max_pages: Annotated[int, Field(description="Maximum number of pages to crawl (max 100)")] = 10,
    source_id: Annotated[
        Identifier | None, Field(description="Existing source to add to (creates new if not provided)")
    ] = None,
    title: Annotated[
        str | None,
        Field(description="Source title if creating new (defaults to website domain)", max_length=LONGEST_TITLE),
    ] = None,
    exclude_patterns: Annotated[
        list[str] | None, Field(description='URL patterns to skip (e.g., ["/archive/", "/tag/"]); globs work too')
    ] = None,
) -> Json:
    """Crawl a website and ingest content. Answers at once; manage_crawl_job tells how it goes on."""
    if not url.strip().lower().startswith(("http://", "https://")):
        raise InvalidParameter(
            "Invalid URL: must start with http:// or https://",
            hint="Provide fully qualified URL: crawl_website(url='https://...')", parameter="url",
        )  # fmt: skip
    collection: CollectionRef | None = None
    if source_id is not None:
        collection = (await find_source(call.engine, source_id)).id
    new = NewCrawl(
        url=url, recursive=recursive, max_pages=bounded(max_pages, MOST_PAGES), collection=collection, title=title,
        exclude=tuple(exclude_patterns or ()),
    )  # fmt: skip
    job = await call.engine.crawl(new)
    report = await call.engine.crawl_report(job.id)
    return {
        "success": True, "crawl_job": {**started(report), "status": "running"},
        "message": "Crawl job started, use manage_crawl_job to check progress: "
        f"manage_crawl_job(action='get', job_id='{job.uid}')",
    }  # fmt: skip


@tools.tool("manage_crawl_job", rate=Rate.MANAGEMENT)
async def manage_crawl_job(
    call: Call,
    action: Annotated[str, Field(description='Operation - "get", "list", "cancel"')],
    job_id: Annotated[Identifier | None, Field(description="Crawl job UUID for get/cancel")] = None,
    page: Annotated[int, Field(description="Page number, of the jobs or of one job's addresses")] = 1,
    per_page: Annotated[int, Field(description="Items per page (max 20)")] = 10,
) -> Json:
    """Follow crawl jobs: get (progress, and the outcome and reason of each address), list, cancel."""
    place, count = max(page, 1), bounded(per_page, MOST_ITEMS)
    match action:
        case "list":
            return await _list(call.engine, place, count)
        case "get" | "cancel" if not job_id:
            required("job_id", action, f"Provide job_id: manage_crawl_job(action='{action}', job_id='...')")
        case "get":
            crawl = await find_crawl(call.engine, str(job_id))
            return {"success": True, "crawl_job": detailed(crawl, place, count), "message": summary(crawl)}
        case "cancel":
            return await _cancel(call.engine, str(job_id))
    raise unknown_action(action, ACTIONS)


async def _list(engine: Engine, page: int, per_page: int) -> Json:
    found = await engine.crawls(page, per_page)
    return {
        "success": True, "crawl_jobs": [progress(crawl) for crawl in found.items], "total_count": found.total,
        "count": len(found.items), "page": page, "per_page": per_page,
    }  # fmt: skip


async def _cancel(engine: Engine, job_id: str) -> Json:
    crawl = await find_crawl(engine, job_id)
    try:
        await engine.cancel(crawl.job.id)
    except NotNow:
        ended = await engine.crawl_report(crawl.job.id)
        raise InvalidParameter(
            f"Crawl job {job_id} has already ended: it is {state(ended)}",
            hint=f"Use manage_crawl_job(action='get', job_id='{job_id}') to see what it brought", parameter="job_id",
        ) from None  # fmt: skip
    stopped = await engine.crawl_report(crawl.job.id)
    message = f"Crawl cancelled: {stopped.counts.crawled} pages that were already in stay"
    return {"success": True, "crawl_job": progress(stopped), "message": message}


async def find_crawl(engine: Engine, job_id: str) -> Crawl:
    ref = as_ref(job_id)
    if ref is not None:
        try:
            return await engine.crawl_report(ref)
        except JobNotFound:
            pass
    raise JobNotFound(f"Crawl job not found: {job_id}", job_id=job_id)


def state(crawl: Crawl) -> str:
    return STATES.get(crawl.job.status, crawl.job.status.value)


def started(crawl: Crawl) -> Json:
    return {
        "id": str(crawl.job.uid), "source_id": str(crawl.collection_uid), "url": crawl.url, "status": state(crawl),
        "pages_crawled": crawl.counts.crawled, "pages_pending": crawl.counts.pending or int(not crawl.job.status.ended),
        "max_pages": crawl.max_pages, "recursive": crawl.recursive, "created_at": stamp(crawl.job.created_at),
    }  # fmt: skip


def progress(crawl: Crawl) -> Json:
    """How far a crawl is, or what it has brought."""
    job, counts = crawl.job, crawl.counts
    body: Json = {
        **started(crawl), "pages_pending": counts.pending, "pages_failed": counts.failed,
        "pages_skipped": counts.skipped, "pages_removed": counts.removed, "documents_created": counts.created,
        "documents_updated": counts.updated, "documents_unchanged": counts.unchanged, "total_chunks": counts.chunks,
        "started_at": stamp(job.started_at) if job.started_at else None,
        "completed_at": stamp(job.completed_at) if job.completed_at else None,
    }  # fmt: skip
    if job.error is not None:
        body["error_message"] = job.error.message
    return body


def detailed(crawl: Crawl, page: int, per_page: int) -> Json:
    """With each address: first what failed, then what was skipped, then what came in."""
    ordered = sorted(crawl.pages, key=lambda each: WORST_FIRST.index(each.outcome))
    shown: list[JsonValue] = [_page(each) for each in ordered[(page - 1) * per_page :][:per_page]]
    counted = Counter(str(each.reason) for each in crawl.pages if each.reason)
    reasons: Json = dict(counted.most_common())
    body: Json = {
        **progress(crawl), "current_step": crawl.job.step, "exclude_patterns": list(crawl.exclude), "reasons": reasons,
        "pages": shown, "pages_total": len(crawl.pages), "page": page, "per_page": per_page,
    }  # fmt: skip
    return {**body, "warnings": list(crawl.job.warnings)} if crawl.job.warnings else body


WORST_FIRST = (
    Outcome.FAILED, Outcome.REMOVED, Outcome.SKIPPED, Outcome.CREATED, Outcome.UPDATED, Outcome.UNCHANGED
)  # fmt: skip


def _page(page: CrawledPage) -> Json:
    return {
        "url": page.url, "outcome": page.outcome.value, "reason": page.reason.value if page.reason else None,
        "detail": cut(page.detail), "http_status": page.http_status,
        "document_id": str(page.document_uid) if page.document_uid else None, "chunks": page.chunk_count,
    }  # fmt: skip


def summary(crawl: Crawl) -> str:
    counts = crawl.counts
    match state(crawl):
        case "completed":
            return f"Crawl completed: {counts.crawled} pages crawled, {counts.created} documents created"
        case "failed":
            reason = crawl.job.error.message if crawl.job.error else "no reason was given"
            return f"Crawl failed: {reason}"
        case "cancelled":
            return f"Crawl cancelled: {counts.crawled} pages that were already in stay"
        case other:
            return f"Crawl {other}: {counts.crawled} of at most {crawl.max_pages} pages crawled"
