"""The tools of contract 004, in the contract's order."""

from __future__ import annotations

from pathlib import PureWindowsPath
from typing import Annotated, Literal

import anyio
from pydantic import Field

from knowledge import wire
from knowledge.engine.api import Engine, check_suffix
from knowledge.errors import (
    CollectionNotFound,
    DeadlineExceeded,
    Duplicate,
    Invalid,
    InvalidParameter,
    MissingParameter,
    Unavailable,
)
from knowledge.model import (
    Content,
    Document,
    DocumentEdit,
    DocumentFilter,
    Hit,
    JobFilter,
    JobStatus,
    Json,
    NewDocument,
    NewFile,
    NewNote,
    Query,
    SearchAnswer,
    SearchFilter,
    SearchMode,
)
from knowledge.toolsets.answer_budget import encode_answer, fit_answer, take_within
from knowledge.toolsets.arguments import TrustedOnly
from knowledge.toolsets.base import RateClass, ToolCall
from knowledge.toolsets.kb.errors import (
    Collection,
    DocumentNumber,
    SourcePath,
    Tags,
    Title,
    dump_chunk,
    dump_document,
    dump_job,
    list_free_tags,
    resolve_collection,
    resolve_collection_or_default,
    tools,
)
from knowledge.toolsets.staged_uploads import MAX_PARTS, Owner, StagedUpload, StagedUploads, UploadDetails
from knowledge.toolsets.values import dump_location, link_hit
from knowledge.wire import load_ref
from knowledge.wire.documents import join_section
from knowledge.wire.values import dump_timestamp


async def add_document(engine: Engine, new: NewDocument) -> Json:
    """Add a document and return its job; a duplicate is a success that returns the existing document."""
    location: Json = {"collection": str(new.collection), "tags": [*new.tags]}
    try:
        job = await engine.add(new)
    except Duplicate as error:
        return {
            "duplicate": True, "document_id": error.details.get("document_id"), "title": error.details.get("title"),
            "collection": str(new.collection), "message": f"{error}; nothing was added",
        }  # fmt: skip
    return {"job_id": job.id, "job_uid": str(job.uid), "status": job.status, "filename": job.filename, **location}


@tools.tool("kb_search", title="Search the knowledge base", read_only=True)
async def search(
    call: ToolCall,
    query: Annotated[str, Field(description="Natural language search query", min_length=1, max_length=10_000)],
    top: Annotated[int, Field(description="How many passages to return", ge=1, le=100)] = 10,
    tags: Annotated[Tags | None, Field(description="Only documents with all of these tags")] = None,
    collection: Annotated[Collection, Field(description="Only documents in this collection")] = None,
    fts_only: Annotated[bool, Field(description="Keyword search only")] = False,
    vec_only: Annotated[bool, Field(description="Vector search only")] = False,
    trusted_only: TrustedOnly = False,
) -> Json:
    """Search the knowledge base; returns matching passages with their documents, best first"""
    named, free = resolve_collection(collection, tags or ())
    collections = () if named is None else (named,)
    within = SearchFilter(collections=collections, tags=free, trusted_only=trusted_only or call.limits.trusted_only)
    wanted = Query(text=query, limit=top, filter=within, mode=_choose_mode(fts_only, vec_only))
    try:
        answer = await call.engine.search(wanted)
    except CollectionNotFound:  # a collection is created by its first document
        answer = SearchAnswer((), 0, wanted.mode, (f"Collection '{named}' does not exist yet",))
    body: Json = {
        "query": query, "results": [dump_hit(hit) for hit in answer.hits], "total_matches": answer.total,
        "returned": len(answer.hits),
    }  # fmt: skip
    return {**body, "notes": [*answer.notes]} if answer.notes else body


def _choose_mode(fts_only: bool, vec_only: bool) -> SearchMode:
    if fts_only and vec_only:
        raise InvalidParameter(
            "fts_only and vec_only cannot both be true", hint="Set only one of them.", parameter="vec_only"
        )
    return SearchMode.TEXT if fts_only else SearchMode.VECTOR if vec_only else SearchMode.HYBRID


def dump_hit(hit: Hit) -> Json:
    document, chunk = hit.document, hit.chunk
    return {
        "chunk_id": chunk.id, "document_id": document.id, "score": round(hit.score, 4), "matched_by": hit.matched_by,
        "text": hit.text, "chunk_index": chunk.index, "chunk_indexes": [*hit.indexes],
        "chunk_metadata": {"page": chunk.page, "section_header": join_section(chunk)},
        "title": document.title, "doc_type": document.doc_type, "collection": document.collection,
        "tags": [*list_free_tags(document)], "metadata": document.metadata, "source_path": document.source_path,
        "url": document.url, "created_at": dump_timestamp(document.created_at), "resource": link_hit(hit),
        "added_by": document.added_by, **dump_location(hit),
    }  # fmt: skip


@tools.tool("kb_addnote", title="Add a note", rate=RateClass.UPLOAD)
async def add_note(
    call: ToolCall,
    text: Annotated[str, Field(description="The text of the note", min_length=1)],
    tags: Tags | None = None,
    collection: Annotated[Collection, Field(description="Collection to add to (default: documents)")] = None,
    title: Title = None,
    source_path: SourcePath = None,
) -> Json:
    """Add a text note to the knowledge base; returns the id of the ingestion job"""
    collection_name, free = resolve_collection_or_default(collection, tags or ())
    note = NewNote(text=text, title=title, collection=collection_name, tags=free, source_path=source_path)
    return await add_document(call.engine, note)


@tools.tool(
    "kb_update_note", title="Replace the text of a note", rate=RateClass.MANAGEMENT, destructive=True, idempotent=True
)
async def update_note(
    call: ToolCall,
    document_id: Annotated[DocumentNumber, Field(description="Id of the note (a UUID also works)")],
    text: Annotated[str, Field(description="The new text of the note", min_length=1)],
    collection: Annotated[Collection, Field(description="Also move the note to this collection")] = None,
) -> Json:
    """Replace the text of a note; its id and tags stay, and its collection unless another is given"""
    target, _ = resolve_collection(collection, ())
    document = await call.engine.update_note(load_ref(document_id, "document_id"), text)
    if target is not None and target != document.collection:
        moved = DocumentEdit(collection=target, moved_from=document.collection)
        document = await call.engine.edit(document.id, moved)
    return dump_document(document)


@tools.tool("kb_get", title="Get a document", read_only=True, rate=RateClass.LIST)
async def get_document(
    call: ToolCall,
    document_id: Annotated[DocumentNumber | None, Field(description="Id of a document (a UUID also works)")] = None,
    source_path: Annotated[
        str | None, Field(description="Original path of the document", min_length=1, max_length=4096)
    ] = None,
    chunk_offset: Annotated[int, Field(description="Index of the first passage to return", ge=0, le=2**31)] = 0,
    chunk_limit: Annotated[
        int | None, Field(description="Number of passages (default: as many as fit into one answer)", ge=0, le=10_000)
    ] = None,
) -> Json:
    """Get one document with its passages by document_id, or the documents with a source_path. A long document comes in
    parts: call again with the next_offset of the answer as chunk_offset"""
    if document_id is not None and source_path is not None:
        raise Invalid("document_id and source_path cannot be combined", hint="Provide only one of them.")
    if document_id is not None:
        document = await call.engine.document(wire.load_ref(document_id, "document_id"))
        return await dump_part(call, document, chunk_offset, chunk_limit)
    if source_path is None:
        raise MissingParameter(
            "document_id or source_path is missing", hint="Provide one of them.", parameter="document_id"
        )
    page = await call.engine.documents(DocumentFilter(source_path=source_path))
    body: Json = {"documents": [dump_document(document) for document in page.items], "total": page.total}
    return body if page.items else {**body, "message": f"No document has the source path '{source_path}'"}


MAX_CHUNKS_PER_READ = 500


async def dump_part(call: ToolCall, document: Document, offset: int, limit: int | None) -> Json:
    """Return a document with the chunks from `offset` that fit into the answer, and the offset of the next part."""
    wanted = min(document.chunk_count - offset if limit is None else limit, MAX_CHUNKS_PER_READ)
    whole = offset == 0 and wanted >= document.chunk_count
    found = await call.engine.chunks(document.id, offset, None if whole else wanted) if wanted > 0 else []
    facts = fit_answer(dump_document(document), call.limits.answer_chars // 2)  # metadata has no limit of its own
    body: Json = {**facts, "total_chunks": document.chunk_count, "chunk_offset": offset}
    dumped = [dump_chunk(chunk) for chunk in found]
    room = call.limits.answer_chars - len(encode_answer(body)) - PART_CHARS
    chunks = take_within(dumped, [len(encode_answer(chunk)) + 1 for chunk in dumped], room)
    body["chunks"] = [*chunks]
    end = offset + len(chunks)
    if chunks and end < document.chunk_count:
        body["next_offset"] = end
        body["hint"] = f"Passages {offset} to {end - 1} of {document.chunk_count}; go on with chunk_offset={end}"
    return body


PART_CHARS = 200
"""Characters of the fields that dump_part adds after it has chosen the chunks."""


@tools.tool("kb_status", title="Show the status", read_only=True, rate=RateClass.LIST)
async def show_status(call: ToolCall) -> Json:
    """Show the engine's version, model, device, counts, queue and health"""
    return wire.dump(wire.StatusShape.from_status(await call.engine.status()))


@tools.tool("kb_jobs", title="List jobs", read_only=True, rate=RateClass.LIST)
async def list_jobs(
    call: ToolCall,
    status: Annotated[
        Literal["queued", "processing", "completed", "partial", "failed", "cancelled"] | None,
        Field(description="Only jobs with this status"),
    ] = None,
) -> Json:
    """List recent jobs, newest first, with their status and the reason of a failure"""
    page = await call.engine.jobs(JobFilter(status=None if status is None else JobStatus(status)))
    return {"jobs": [dump_job(job) for job in page.items], "total": page.total}


UploadId = Annotated[
    str, Field(description="The upload_id that kb_upload_start returned", min_length=1, max_length=200)
]


@tools.tool("kb_upload_start", title="Start an upload", rate=RateClass.UPLOAD)
async def start_upload(
    call: ToolCall,
    filename: Annotated[str, Field(description="File name with its extension", min_length=1, max_length=1000)],
    total_size: Annotated[int, Field(description="Size of the whole file in bytes", ge=1, le=2**53)],
    tags: Tags | None = None,
    collection: Annotated[Collection, Field(description="Collection to add to (default: documents)")] = None,
    title: Title = None,
    source_path: SourcePath = None,
) -> Json:
    """Start to upload a file in parts; returns the upload_id for kb_upload_chunk and kb_upload_finish"""
    collection_name, free = resolve_collection_or_default(collection, tags or ())
    details = UploadDetails(
        filename=parse_filename(filename), total_size=total_size, collection=collection_name, tags=free, title=title,
        source_path=source_path,
    )  # fmt: skip
    uploads = call.service(StagedUploads)
    upload = await uploads.start(owner_of(call), details)
    return {"upload_id": str(upload.uid), "expires_in_seconds": uploads.limits.ttl_s}


@tools.tool(
    "kb_upload_chunk", title="Upload a part", idempotent=True
)  # the upload rate limit counts files, in kb_upload_start
async def store_chunk(
    call: ToolCall,
    upload_id: UploadId,
    data: Annotated[
        str, Field(description="The bytes of this part in base64; at most 2 MB before encoding", min_length=1)
    ],
    chunk_index: Annotated[int, Field(description="Index of this part, from 0", ge=0, lt=MAX_PARTS)],
) -> Json:
    """Send one part of an upload; parts may come in any order, and a part that is sent again replaces the first"""
    uploads = call.service(StagedUploads)
    upload = await uploads.find(owner_of(call), upload_id)
    await uploads.store_part(upload, chunk_index, data)
    return {
        "upload_id": str(upload.uid), "chunk_index": chunk_index, "received_bytes": upload.received_bytes,
        "total_size": upload.details.total_size,
    }  # fmt: skip


@tools.tool("kb_upload_finish", title="Finish an upload", idempotent=True)
async def finish_upload(call: ToolCall, upload_id: UploadId) -> Json:
    """Assemble the parts of an upload and queue the file; returns the id of the ingestion job"""
    uploads = call.service(StagedUploads)
    upload = await uploads.find(owner_of(call), upload_id)
    async with uploads.open_content(upload) as content:
        if content is not None:
            with anyio.CancelScope(shield=True):  # a client that disconnects can call again and gets the same job
                await uploads.mark_finished(upload, await add_uploaded_file(call, uploads, upload, content))
    return upload.answer or {}


async def add_uploaded_file(call: ToolCall, uploads: StagedUploads, upload: StagedUpload, content: Content) -> Json:
    details = upload.details
    file = NewFile(
        filename=details.filename, content=content, title=details.title, collection=details.collection,
        tags=details.tags, source_path=details.source_path, job_uid=upload.job_uid,
    )  # fmt: skip
    try:
        return await add_document(call.engine, file)
    except (Unavailable, DeadlineExceeded) as error:
        await uploads.extend_deadline(upload)
        error.hint = f"The parts are kept for {uploads.limits.ttl_s:g} s: call kb_upload_finish again. {error.hint}"
        raise


def owner_of(call: ToolCall) -> Owner:
    return call.caller.owner, call.caller.key


def parse_filename(filename: str) -> str:
    """Return the last component of a path (POSIX or Windows); raise an error if its format is not supported."""
    name = PureWindowsPath(filename).name.strip()
    if not name or name in (".", ".."):
        raise InvalidParameter(f"'{filename[:100]}' is not a valid file name", parameter="filename")
    check_suffix(name)
    return name


__all__ = ["tools"]

ORDER = (
    "kb_search", "kb_addnote", "kb_upload_start", "kb_upload_chunk", "kb_upload_finish", "kb_update_note", "kb_get",
    "kb_status", "kb_jobs",
)  # fmt: skip

tools.tools.sort(key=lambda tool: ORDER.index(tool.name))
