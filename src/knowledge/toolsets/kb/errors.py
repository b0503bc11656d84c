"""Errors, argument types and JSON shapes of contract 004."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from knowledge import errors
from knowledge.errors import InvalidParameter, KnowledgeError
from knowledge.model import DEFAULT_COLLECTION, Chunk, Document, Job, Json
from knowledge.toolsets.base import Refusal, Toolset
from knowledge.wire.documents import join_section
from knowledge.wire.values import COLLECTION_TAG, choose_collection, dump_timestamp, dump_timestamp_or_none, split_tags

HINTS: dict[type[KnowledgeError], str] = {
    errors.DocumentNotFound: "Use a document_id that kb_search or kb_get returned.",
    errors.NotANote: "Upload the changed file again with kb_upload_start.",
}
"""Replaces the hints of the engine that mention commands this contract does not have."""


def refuse(error: KnowledgeError) -> Refusal:
    """Format an error as code, message, hint and details."""
    body: Json = {"success": False, "error": error.code, "message": str(error)}
    if hint := HINTS.get(type(error), error.hint):
        body["hint"] = hint
    if error.details:
        body["details"] = error.details
    return Refusal(body, code=error.code)


tools = Toolset(
    name="kb",
    format_error=refuse,
    instructions=(
        "A knowledge base of notes and files. Call kb_search before you answer from memory, and name the document that "
        "an answer comes from; kb_get returns a whole document."
    ),
    change_instructions=(
        "kb_addnote adds a text. For a file call kb_upload_start, kb_upload_chunk for each part, then "
        "kb_upload_finish. Both return a job, which kb_jobs lists."
    ),
)

# -- arguments ----------------------------------------------------------------------------------


def _number_to_text(value: object) -> object:
    whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if whole else value  # type: ignore[call-overload]


DocumentNumber: TypeAlias = Annotated[
    str, BeforeValidator(_number_to_text), Field(min_length=1, max_length=200), WithJsonSchema({"type": "integer"})
]
"""A document id: the integer of this contract, or a UUID."""
Tag: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Tags: TypeAlias = Annotated[list[Tag], Field(description="Tags of the document", max_length=100)]
Collection: TypeAlias = Annotated[
    str | None, Field(description="Collection name; a document belongs to exactly one collection")
]
Title: TypeAlias = Annotated[
    str | None, Field(description="Title (default: taken from the content)", min_length=1, max_length=1000)
]
SourcePath: TypeAlias = Annotated[
    str | None,
    Field(description="Original path; adding the same path again replaces the document", min_length=1, max_length=4096),
]


def resolve_collection(collection: str | None, tags: Iterable[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the collection that a call names as argument or as `collection:*` tag, and the other tags."""
    free, tagged = split_tags(tags)
    if collection is not None:
        collection = collection.strip().removeprefix(COLLECTION_TAG)
        if not collection:
            raise InvalidParameter("Invalid value for 'collection': must not be empty", parameter="collection")
    named = choose_collection(collection, tagged)
    return (None if named is None else str(named)), tuple(dict.fromkeys(tag.strip() for tag in free))


def resolve_collection_or_default(collection: str | None, tags: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    named, free = resolve_collection(collection, tags)
    return named or DEFAULT_COLLECTION, free


# -- answers ------------------------------------------------------------------------------------


def list_free_tags(document: Document) -> list[str]:
    return [tag for tag in document.tags if not tag.startswith(COLLECTION_TAG)]


def dump_document(document: Document) -> Json:
    return {
        "id": document.id, "uid": str(document.uid), "title": document.title, "kind": document.kind,
        "added_by": document.added_by,
        "doc_type": document.doc_type, "collection": document.collection, "tags": [*list_free_tags(document)],
        "metadata": document.metadata, "filename": document.filename, "source_path": document.source_path,
        "url": document.url, "status": document.status, "method": document.method,
        "warnings": [*document.warnings], "size_bytes": document.size_bytes, "page_count": document.page_count,
        "chunk_count": document.chunk_count, "created_at": dump_timestamp(document.created_at),
        "updated_at": dump_timestamp(document.updated_at),
    }  # fmt: skip


def dump_chunk(chunk: Chunk) -> Json:
    return {
        "id": chunk.id, "index": chunk.index, "text": chunk.text, "page": chunk.page,
        "section_header": join_section(chunk),
    }  # fmt: skip


def dump_job(job: Job) -> Json:
    error: Json | None = None
    if job.error is not None:
        error = {"code": job.error.code, "message": job.error.message, "hint": job.error.hint}
    return {
        "id": job.id, "uid": str(job.uid), "kind": job.kind, "filename": job.filename, "status": job.status,
        "progress": job.progress, "step": job.step, "error": error, "warnings": [*job.warnings],
        "document_id": job.document_id, "chunk_count": job.chunk_count, "created_at": dump_timestamp(job.created_at),
        "started_at": dump_timestamp_or_none(job.started_at), "completed_at": dump_timestamp_or_none(job.completed_at),
    }  # fmt: skip
