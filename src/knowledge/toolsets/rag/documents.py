"""The tool manage_document."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.error_codes import load_job_error
from knowledge.errors import Cancelled, DocumentNotFound, Duplicate, InvalidParameter
from knowledge.model import (
    DEFAULT_COLLECTION,
    Collection,
    CollectionRef,
    Document,
    DocumentEdit,
    DocumentFilter,
    Job,
    Json,
    JsonValue,
    NewFile,
)
from knowledge.toolsets.add_job import report_completion, split_title_and_tags, was_unpacked
from knowledge.toolsets.arguments import Identifier, Metadata, check_suffix
from knowledge.toolsets.base import RateClass, ToolCall
from knowledge.toolsets.file_access import open_file, reject_web_address
from knowledge.toolsets.rag.errors import (
    MAX_ITEMS,
    MAX_TITLE_CHARS,
    clamp,
    raise_missing_parameter,
    tools,
    truncate_text,
    truncate_values,
    unknown_action_error,
)
from knowledge.toolsets.rag.sources import find_source
from knowledge.toolsets.values import format_timestamp, make_link, parse_ref

ACTIONS = ("create", "get", "list", "update", "delete")
FIRST_LISTED_FORMATS = ("pdf", "html", "txt", "md", "docx")
"""Formats that an unsupported-format error lists first."""


@tools.tool("manage_document", title="Manage documents", destructive=True, rate=RateClass.UPLOAD)
async def manage_document(
    call: ToolCall,
    action: Annotated[str, Field(description='Operation - "create", "update", "delete", "get", "list"')],
    document_id: Annotated[Identifier | None, Field(description="Document UUID for get/update/delete")] = None,
    file_path: Annotated[
        str | None, Field(description="Local file path for create (PDF, HTML, TXT, etc.)", max_length=4096)
    ] = None,
    source_id: Annotated[Identifier | None, Field(description="Source UUID to associate with document")] = None,
    title: Annotated[
        str | None, Field(description="Document title (optional, extracted from file if not provided)", max_length=500)
    ] = None,
    url: Annotated[
        str | None, Field(description="Original URL if document was fetched from web", max_length=2000)
    ] = None,
    metadata: Annotated[Metadata | None, Field(description="Additional metadata (tags, author, date, etc.)")] = None,
    page: Annotated[int, Field(description="Page number for list operation (default 1)")] = 1,
    per_page: Annotated[int, Field(description="Items per page for list (max 20)")] = 10,
) -> Json:
    """Manage documents: create (upload a file), get, list, update, delete.
    Deleting a document also deletes its chunks and vectors."""
    match action:
        case "create" if not file_path:
            raise_missing_parameter(
                "file_path", "create",
                "Provide file_path to upload document: manage_document(action='create', file_path='...')",
            )  # fmt: skip
        case "create":
            return await _create_document(call, str(file_path), source_id, title, url, metadata or {})
        case "list":
            return await _list_documents(call.engine, source_id, max(page, 1), clamp(per_page, MAX_ITEMS))
        case "get" | "update" | "delete" if not document_id:
            raise_missing_parameter(
                "document_id", action, f"Provide document_id: manage_document(action='{action}', ...)"
            )
        case "get":
            document = await find_document(call.engine, str(document_id))
            return {
                "success": True, "document": dump_document(document, await find_source_id(call.engine, document)),
                "resource": make_link(document.uid),
                "hint": f"Read the text with resources/read of {make_link(document.uid)}, or find passages of it with "
                "search_knowledge_base(query='...')",
            }  # fmt: skip
        case "update":
            return await _update_document(call.engine, str(document_id), title, url, metadata, source_id)
        case "delete":
            return await _delete_document(call.engine, str(document_id))
    raise unknown_action_error(action, ACTIONS)


async def _create_document(
    call: ToolCall, file_path: str, source_id: str | None, title: str | None, url: str | None, metadata: Json
) -> Json:
    reject_web_address(file_path, f"Call crawl_website(url='{file_path[:200]}') to add web pages")
    check_suffix(file_path, FIRST_LISTED_FORMATS)
    collection: CollectionRef = DEFAULT_COLLECTION
    if source_id is not None:
        collection = (await find_source(call.engine, source_id)).id
    named, tags, rest = split_title_and_tags(metadata)
    try:
        async with open_file(file_path, call.limits.folders, call.limits.max_file_bytes) as file:
            job = await call.engine.add(
                NewFile(
                    filename=file.path.name,
                    content=file.content,
                    title=title or named,
                    collection=collection,
                    tags=tags,
                    metadata=rest,
                    source_path=str(file.path),
                    url=url,
                )
            )
    except Duplicate as error:
        return await _report_duplicate(call.engine, error)
    ended = await call.engine.wait(job.uid, call.limits.wait_s, call.report)
    report_completion(call, ended)
    return await _report_created(call.engine, ended)


async def _report_created(engine: Engine, job: Job) -> Json:
    """Return the answer of create: the document, or the job if it still runs; raise the error of a failed job."""
    if not job.status.has_ended:
        document: Json = {"id": None, "title": job.filename, "status": "processing", "chunks_created": 0}
        message = f"Still processing as job {job.uid}; call manage_document(action='list') to see when it is done"
        return {"success": True, "document": document, "job_id": str(job.uid), "message": message}
    if job.error is not None:
        raise load_job_error(job.error, about=job.filename)
    if was_unpacked(job):
        return {"success": True, "document": None, "message": "; ".join(job.warnings)}
    if job.document_id is None:
        raise Cancelled(f"{job.filename}: the job was cancelled")
    found = await engine.document(job.document_id)
    body = dump_created(found, await find_source_id(engine, found))
    message = f"Document ingested successfully with {found.chunk_count} chunks"
    if job.warnings:
        message = f"Document ingested with {found.chunk_count} chunks; {'; '.join(job.warnings)}"
    return {"success": True, "document": body, "message": message}


async def _report_duplicate(engine: Engine, error: Duplicate) -> Json:
    document = await engine.document(int(str(error.details["document_id"])))
    return {
        "success": True, "document": dump_created(document, await find_source_id(engine, document)), "duplicate": True,
        "message": f"The same document already exists with {document.chunk_count} chunks",
    }  # fmt: skip


async def _list_documents(engine: Engine, source_id: str | None, page: int, per_page: int) -> Json:
    source = await find_source(engine, source_id) if source_id else None
    wanted = DocumentFilter(collection=source.id if source else None, page=page, per_page=per_page)
    found = await engine.documents(wanted)
    sources = {each: await engine.collection(each) for each in {item.collection_id for item in found.items}}
    return {
        "success": True, "documents": [dump_list_item(item, sources[item.collection_id]) for item in found.items],
        "total_count": found.total, "count": len(found.items), "page": page, "per_page": per_page,
    }  # fmt: skip


async def _update_document(
    engine: Engine,
    document_id: str,
    title: str | None,
    url: str | None,
    metadata: Json | None,
    source_id: str | None,
) -> Json:
    document = await find_document(engine, document_id)
    if title is None and url is None and metadata is None and source_id is None:
        raise_missing_parameter(
            "title, url or metadata", "update",
            "Provide a field to change: manage_document(action='update', title='...')",
        )  # fmt: skip
    named, tags, rest = split_title_and_tags(metadata or {})
    if title is not None and not title.strip():
        raise InvalidParameter("Invalid title value", hint="Provide a title that is not empty", parameter="title")
    edit = DocumentEdit(
        title=title or named, url=url, metadata=rest if metadata is not None else None, add_tags=tags,
        collection=(await find_source(engine, source_id)).id if source_id else None,
    )  # fmt: skip
    edited = await engine.edit(document.id, edit)
    return {
        "success": True, "document": dump_document(edited, await find_source_id(engine, edited)),
        "message": "Document updated successfully",
    }  # fmt: skip


async def _delete_document(engine: Engine, document_id: str) -> Json:
    document = await find_document(engine, document_id)
    removed = await engine.remove(document.id)
    return {
        "success": True, "message": "Document and associated chunks deleted successfully",
        "document_id": str(document.uid), "chunks_deleted": removed.chunks,
    }  # fmt: skip


async def find_document(engine: Engine, document_id: str) -> Document:
    ref = parse_ref(document_id)
    if ref is not None:
        try:
            return await engine.document(ref)
        except DocumentNotFound:
            pass
    raise DocumentNotFound(f"Document not found: {document_id}", document_id=document_id)


async def find_source_id(engine: Engine, document: Document) -> UUID:
    return (await engine.collection(document.collection_id)).uid


def _dump_facts(document: Document, source_id: UUID) -> Json:
    return {
        "id": str(document.uid), "title": truncate_text(document.title, MAX_TITLE_CHARS), "source_id": str(source_id),
        "document_type": document.doc_type, "url": document.url,
    }  # fmt: skip


def _dump_metadata(document: Document) -> Json:
    known: Json = {"pages": document.page_count} if document.page_count else {}
    tags: dict[str, JsonValue] = {"tags": list(document.tags)} if document.tags else {}
    return {**known, **tags, **truncate_values(document.metadata)}


def dump_created(document: Document, source_id: UUID) -> Json:
    return {
        **_dump_facts(document, source_id), "chunks_created": document.chunk_count, "status": document.status.value,
        "created_at": format_timestamp(document.created_at), "metadata": _dump_metadata(document),
    }  # fmt: skip


def dump_document(document: Document, source_id: UUID) -> Json:
    body: Json = {
        **_dump_facts(document, source_id), "chunks_count": document.chunk_count, "status": document.status.value,
        "created_at": format_timestamp(document.created_at), "updated_at": format_timestamp(document.updated_at),
        "metadata": _dump_metadata(document), "source_path": document.source_path, "size_bytes": document.size_bytes,
        "added_by": document.added_by,
    }  # fmt: skip
    return {**body, "warnings": list(document.warnings)} if document.warnings else body


def dump_list_item(document: Document, source: Collection) -> Json:
    return {
        **_dump_facts(document, source.uid), "chunks_count": document.chunk_count, "status": document.status.value,
        "created_at": format_timestamp(document.created_at),
    }  # fmt: skip
