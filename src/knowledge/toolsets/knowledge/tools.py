"""The seven tools of contract 000."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, date, datetime
from datetime import time as clock
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from knowledge import errors
from knowledge.errors import Duplicate
from knowledge.model import (
    Document,
    DocumentFilter,
    DocumentStatus,
    EngineStatus,
    Hit,
    Job,
    Json,
    JsonValue,
    NewFile,
    Query,
    SearchFilter,
)
from knowledge.toolsets.add_job import add_document, split_title_and_tags, wait_for_job, was_unpacked
from knowledge.toolsets.arguments import (
    Arguments,
    Identifier,
    Metadata,
    TrustedOnly,
    check_suffix,
    list_formats,
    normalize_format,
)
from knowledge.toolsets.base import RateClass, ToolCall, ToolResult, Toolset
from knowledge.toolsets.file_access import open_file, reject_web_address, to_megabytes
from knowledge.toolsets.knowledge.errors import dump_warnings, refuse, to_ref
from knowledge.toolsets.knowledge.tasks import (
    cancel_task,
    dump_ended,
    dump_running,
    estimate_new_document,
    estimate_time_left,
    find_task,
)
from knowledge.toolsets.values import dump_location, format_timestamp, link_hit, parse_ref

CONTRACT_FORMATS = ("pdf", "docx", "pptx", "xlsx", "html", "jpg", "png", "svg")

tools = Toolset(
    name="knowledge",
    format_error=refuse,
    cancel=cancel_task,
    instructions=(
        "The user's own documents. Call knowledge-search before you answer from memory, and name the file that an "
        "answer comes from."
    ),
    change_instructions=(
        "knowledge-add takes the path of a file and works in the background: knowledge-task-status reports the "
        "progress of its task_id."
    ),
)


@tools.tool("knowledge-add", title="Add a document", rate=RateClass.UPLOAD)
async def add(
    call: ToolCall,
    file_path: Annotated[str, Field(description="Path to the document or image file", min_length=1, max_length=4096)],
    metadata: Annotated[Metadata | None, Field(description="Additional metadata (author, title, tags)")] = None,
    force_ocr: Annotated[bool, Field(description="Force OCR even if text extraction available")] = False,
    async_: Annotated[bool, Field(description="Process asynchronously and return task ID")] = True,
) -> ToolResult:
    """Add a document or image to the knowledge base for semantic search"""
    began = time.monotonic()
    reject_web_address(
        file_path,
        "knowledge-add reads files. To add web pages, call crawl_website (toolset rag, at /mcp/rag) "
        "or run 'knowledge crawl URL'.",
    )
    doc_type = check_suffix(file_path, CONTRACT_FORMATS)
    title, tags, rest = split_title_and_tags(metadata or {})
    try:
        async with open_file(file_path, call.limits.folders, call.limits.max_file_bytes) as file:
            new = NewFile(
                filename=file.path.name, content=file.content, title=title, tags=tags, metadata=rest,
                source_path=str(file.path), force_ocr=force_ocr,
            )  # fmt: skip
            job = await add_document(call.engine, new)
            size = file.size
    except Duplicate as duplicate:
        return report_duplicate(await call.engine.document(to_ref(duplicate.details["document_id"])))
    if async_:
        call.follow(job.uid)
        return {
            "success": True, "task_id": str(job.uid), "message": "Document queued for processing",
            "estimated_time_seconds": await estimate_new_document(call.engine, doc_type, size),
        }  # fmt: skip
    return await report_added(call, await wait_for_job(call, job.uid), time.monotonic() - began)


async def report_added(call: ToolCall, job: Job, seconds: float) -> ToolResult:
    """Return the answer of a synchronous add: the document, the failure, or the state of a job that still runs."""
    if not job.status.has_ended:
        message = {"message": "Still processing; call knowledge-task-status with this task_id"}
        return {**dump_running(job, await estimate_time_left(call.engine, job)), **message}
    if was_unpacked(job):
        return {
            "success": True,
            "filename": job.filename,
            "message": job.warnings[0],
            **dump_warnings(job.warnings[1:]),
        }
    if job.document_id is None:
        return dump_ended(job)
    document = await call.engine.document(job.document_id)
    answer: Json = {
        "success": True, "document_id": str(document.uid), "filename": name_of(document),
        "chunks_created": document.chunk_count, "processing_method": document.method.value,
        "processing_time_seconds": round(seconds, 2),
    }  # fmt: skip
    return {**answer, **dump_warnings(job.warnings)}


def report_duplicate(document: Document) -> Json:
    return {
        "success": True, "document_id": str(document.uid), "filename": name_of(document),
        "chunks_created": document.chunk_count, "processing_method": document.method.value,
        "processing_time_seconds": 0.0, "duplicate": True, "message": "The same document already exists",
    }  # fmt: skip


def name_of(document: Document) -> str:
    return document.filename or document.title


class DateRange(Arguments):
    start: Annotated[str | None, Field(description="First day, such as 2025-01-01 (UTC, inclusive)")] = None
    end: Annotated[str | None, Field(description="Last day, such as 2025-12-31 (UTC, inclusive)")] = None


class Filters(Arguments):
    format: Annotated[str | None, Field(description="Only documents of this format, such as pdf")] = None
    date_range: Annotated[DateRange | None, Field(description="Only documents added between these days")] = None


@tools.tool("knowledge-search", title="Search the knowledge base", read_only=True)
async def search(
    call: ToolCall,
    query: Annotated[str, Field(description="Natural language search query", min_length=1, max_length=500)],
    top_k: Annotated[int, Field(description="Number of results to return", ge=1, le=50)] = 10,
    min_relevance: Annotated[float, Field(description="Minimum relevance score (0.0 to 1.0)", ge=0.0, le=1.0)] = 0.0,
    filters: Annotated[Filters | None, Field(description="Metadata filters (format, date_range)")] = None,
    trusted_only: TrustedOnly = False,
) -> Json:
    """Search the knowledge base using natural language query"""
    began = time.perf_counter()
    if not query.strip():
        raise errors.InvalidParameter("Invalid value for 'query': must not be empty", parameter="query")
    within = replace(build_filter(filters or Filters()), trusted_only=trusted_only or call.limits.trusted_only)
    wanted = Query(text=query, limit=top_k, threshold=min_relevance, filter=within)
    answer = await call.engine.search(wanted)
    if not answer.hits and (await count_documents(call)) == 0:
        raise errors.EmptyKnowledgeBase(
            "Knowledge base is empty. Add documents with knowledge-add first", document_count=0
        )
    results: list[JsonValue] = [dump_hit(hit) for hit in answer.hits]
    body: Json = {"success": True, "query": query, "results": results, "total_results": len(results)}
    if not results:
        body["message"] = "No documents found matching your query"
    if answer.notes:
        body["notes"] = list(answer.notes)
    return {**body, "search_time_ms": round((time.perf_counter() - began) * 1000, 1)}


async def count_documents(call: ToolCall) -> int:
    return (await call.engine.documents(DocumentFilter(finished=True, per_page=1))).total


def build_filter(filters: Filters) -> SearchFilter:
    types: tuple[str, ...] = ()
    if filters.format is not None:
        name = normalize_format(filters.format.strip().lower().removeprefix("."))
        valid = [*list_formats(CONTRACT_FORMATS), "note"]
        if name not in valid:
            listed = ", ".join(valid)
            raise errors.InvalidParameter(
                f"Invalid value for 'filters.format': must be one of {listed}", parameter="filters.format"
            )
        types = (name,)
    days = filters.date_range or DateRange()
    first, last = parse_moment(days.start, "start", clock.min), parse_moment(days.end, "end", clock.max)
    if first and last and first > last:
        raise errors.InvalidParameter(
            "Invalid value for 'filters.date_range': start must not be after end", parameter="filters.date_range"
        )
    return SearchFilter(doc_types=types, date_from=first, date_to=last)


def parse_moment(text: str | None, end: str, of_day: clock) -> datetime | None:
    """Parse an ISO date or time as UTC; a date is combined with `of_day`."""
    if text is None:
        return None
    try:
        if len(text) == 10:
            return datetime.combine(date.fromisoformat(text), of_day, UTC)
        given = datetime.fromisoformat(text)
        return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        name = f"filters.date_range.{end}"
        raise errors.InvalidParameter(
            f"Invalid value for '{name}': must be a date such as 2025-01-31", parameter=name
        ) from None


def dump_hit(hit: Hit) -> Json:
    document, chunk = hit.document, hit.chunk
    return {
        "document_id": str(document.uid), "chunk_id": str(chunk.uid), "filename": name_of(document),
        "chunk_text": hit.text, "relevance_score": round(hit.score, 4), "resource": link_hit(hit),
        "metadata": {
            "format": document.doc_type, "page_num": chunk.page, "date_added": format_timestamp(document.created_at),
            "title": document.title, "section": list(chunk.section), "chunk_index": chunk.index,
            "chunk_indexes": [*hit.indexes],
            "source_path": document.source_path, "url": document.url, "added_by": document.added_by,
            **dump_location(hit),
        },
    }  # fmt: skip


@tools.tool("knowledge-remove", title="Remove a document", destructive=True, rate=RateClass.MANAGEMENT)
async def remove(
    call: ToolCall,
    document_id: Annotated[Identifier, Field(description="ID of document to remove")],
    confirm: Annotated[bool, Field(description="Confirmation flag for safety")] = False,
) -> Json:
    """Remove a specific document from the knowledge base"""
    document = await find_document(call, document_id)
    if not confirm:
        facts: Json = {"id": str(document.uid), "filename": name_of(document), "chunks": document.chunk_count}
        raise errors.ConfirmationRequired("Set confirm=true to remove this document", hint="", document=facts)
    removed = await call.engine.remove(document.id)
    return {
        "success": True, "document_id": str(document.uid), "filename": name_of(document),
        "chunks_removed": removed.chunks, "message": "Document removed successfully",
    }  # fmt: skip


async def find_document(call: ToolCall, document_id: str) -> Document:
    ref = parse_ref(document_id)
    if ref is not None:
        try:
            return await call.engine.document(ref)
        except errors.DocumentNotFound:
            pass
    raise errors.DocumentNotFound(f"Document with ID '{document_id}' not found", document_id=document_id)


SORT_COLUMNS = {"date_added": "created_at", "filename": "filename", "size": "size_bytes"}


@tools.tool("knowledge-show", title="List documents", read_only=True, rate=RateClass.LIST)
async def show(
    call: ToolCall,
    limit: Annotated[int, Field(description="Max documents to return", ge=1, le=1000)] = 100,
    offset: Annotated[int, Field(description="Pagination offset", ge=0, le=2**31)] = 0,
    sort_by: Annotated[
        Literal["date_added", "filename", "size"], Field(description="Sort field (date_added, filename, size)")
    ] = "date_added",
    sort_order: Annotated[Literal["asc", "desc"], Field(description="Sort order (asc, desc)")] = "desc",
) -> Json:
    """List all documents in the knowledge base with metadata"""
    page = await call.engine.documents(
        DocumentFilter(
            finished=True, sort=SORT_COLUMNS[sort_by], descending=sort_order == "desc", per_page=limit, offset=offset
        )
    )
    body: Json = {
        "success": True, "documents": [dump_document(document) for document in page.items], "total_count": page.total,
        "limit": limit, "offset": offset,
    }  # fmt: skip
    if page.total == 0:
        body["message"] = "Knowledge base is empty"
    return body


def dump_document(document: Document) -> Json:
    processing = document.status is DocumentStatus.PROCESSING
    facts: Json = {
        "id": str(document.uid), "filename": name_of(document), "format": document.doc_type,
        "size_bytes": document.size_bytes, "date_added": format_timestamp(document.created_at),
        "chunk_count": document.chunk_count, "processing_status": "processing" if processing else "completed",
        "processing_method": document.method.value, "title": document.title, "tags": list(document.tags),
        "metadata": document.metadata,
    }  # fmt: skip
    return {**facts, **dump_warnings(document.warnings)}


CONFIRMATION_PHRASE = "DELETE ALL"


@tools.tool("knowledge-clear", title="Clear the knowledge base", destructive=True, rate=RateClass.MANAGEMENT)
async def clear(
    call: ToolCall,
    confirm: Annotated[bool, Field(description="Must be true to clear")],
    confirmation_phrase: Annotated[str, Field(description='Must be "DELETE ALL"')],
) -> Json:
    """Remove all documents from the knowledge base"""
    if not confirm or confirmation_phrase != CONFIRMATION_PHRASE:
        count = await count_documents(call)
        raise errors.ConfirmationRequired(
            "This action will delete ALL documents. Set confirm=true and confirmation_phrase='DELETE ALL' to proceed",
            hint="", current_document_count=count,
        )  # fmt: skip
    removed = await call.engine.clear()
    return {
        "success": True, "documents_removed": removed.documents, "embeddings_removed": removed.chunks,
        "storage_freed_mb": round(removed.bytes_freed / (1 << 20), 4), "message": "Knowledge base cleared successfully",
    }  # fmt: skip


@tools.tool("knowledge-status", title="Show the status", read_only=True, rate=RateClass.LIST)
async def show_status(call: ToolCall) -> Json:
    """Get knowledge base statistics and health status"""
    now = await call.engine.status()
    return {
        "success": True,
        "knowledge_base": {
            "name": "default", "document_count": now.documents, "total_chunks": now.chunks,
            "total_size_bytes": now.files_bytes, "total_size_mb": round(now.files_bytes / (1 << 20), 2),
            "average_chunks_per_document": round(now.chunks / now.documents, 1) if now.documents else 0.0,
            "storage_path": str(Path(now.data_path) / "files"), "vector_db_path": str(Path(now.data_path) / "index"),
        },
        "health": dump_health(now),
        "configuration": {
            "embedding_model": now.model.name, "chunk_size": now.chunk_size,
            "max_file_size_mb": to_megabytes(call.limits.max_file_bytes),
        },
        "last_updated": format_timestamp(now.last_change) if now.last_change else None,
    }  # fmt: skip


def dump_health(now: EngineStatus) -> Json:
    facts: Json = {
        "status": now.health, "vector_db_connected": now.index_ok, "storage_accessible": now.storage_ok,
        "embedding_model_loaded": now.model.loaded,
    }  # fmt: skip
    return {**facts, "issues": list(now.issues)} if now.issues else facts


@tools.tool("knowledge-task-status", title="Show the status of a task", read_only=True, rate=RateClass.LIST)
async def task_status(
    call: ToolCall, task_id: Annotated[Identifier, Field(description="Task ID returned from async operation")]
) -> ToolResult:
    """Get status of an async processing task"""
    job = await find_task(call, task_id)
    return dump_ended(job) if job.status.has_ended else dump_running(job, await estimate_time_left(call.engine, job))
