"""The tool manage_source; a source is a collection."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from knowledge import errors
from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, InvalidParameter
from knowledge.model import Collection, CollectionEdit, Json, NewCollection
from knowledge.toolsets.arguments import Identifier
from knowledge.toolsets.base import RateClass, ToolCall
from knowledge.toolsets.rag.errors import (
    MAX_ITEMS,
    MAX_TITLE_CHARS,
    clamp,
    parse_source_ref,
    raise_missing_parameter,
    tools,
    truncate_text,
    unknown_action_error,
)
from knowledge.toolsets.values import format_timestamp

ACTIONS = ("create", "get", "list", "update", "delete")
SOURCE_TYPES = ("upload", "crawl", "api")

Title = Annotated[str | None, Field(description="Human-readable source name", max_length=500)]


@tools.tool("manage_source", title="Manage sources", destructive=True, rate=RateClass.MANAGEMENT)
async def manage_source(
    call: ToolCall,
    action: Annotated[str, Field(description='Operation - "create", "update", "delete", "list", "get"')],
    source_id: Annotated[Identifier | None, Field(description="Source UUID for get/update/delete")] = None,
    title: Title = None,
    url: Annotated[
        str | None, Field(description='Base URL if source_type is "crawl" or "api"', max_length=2000)
    ] = None,
    source_type: Annotated[
        str, Field(description='"upload" (manual files), "crawl" (website), "api" (external API)')
    ] = "upload",
    page: Annotated[int, Field(description="Page number for list operation")] = 1,
    per_page: Annotated[int, Field(description="Items per page for list (max 20)")] = 10,
) -> Json:
    """Manage ingestion sources (document collections): create, get, list, update, delete.
    Deleting a source also deletes its documents, chunks and vectors."""
    match action:
        case "create":
            return await _create_source(call.engine, title, url, source_type)
        case "list":
            return await _list_sources(call.engine, page, clamp(per_page, MAX_ITEMS))
        case "get" | "update" | "delete" if not source_id:
            raise_missing_parameter(
                "source_id", action, f"Provide source_id: manage_source(action='{action}', source_id='...')"
            )
        case "get":
            return {"success": True, "source": dump_details(await find_source(call.engine, str(source_id)))}
        case "update":
            return await _update_source(call.engine, str(source_id), title, url)
        case "delete":
            return await _delete_source(call.engine, str(source_id))
    raise unknown_action_error(action, ACTIONS)


async def _create_source(engine: Engine, title: str | None, url: str | None, source_type: str) -> Json:
    if not title or not title.strip():
        raise_missing_parameter(
            "title", "create", "Provide title for the source: manage_source(action='create', title='...')"
        )
    if source_type not in SOURCE_TYPES:
        raise InvalidParameter(
            "Invalid source_type value", hint=f"Valid values: {', '.join(SOURCE_TYPES)}", parameter="source_type"
        )
    _check_url(url)
    made = await engine.create_collection(NewCollection(title=title.strip(), url=url, source_type=source_type))
    return {"success": True, "source": dump_source(made), "message": "Source created successfully"}


async def _list_sources(engine: Engine, page: int, per_page: int) -> Json:
    found = await engine.collections(max(page, 1), per_page)
    return {
        "success": True, "sources": [dump_list_item(source) for source in found.items], "total_count": found.total,
        "count": len(found.items), "page": found.page, "per_page": per_page,
    }  # fmt: skip


async def _update_source(engine: Engine, source_id: str, title: str | None, url: str | None) -> Json:
    source = await find_source(engine, source_id)
    if title is None and url is None:
        raise_missing_parameter(
            "title or url", "update", "Provide a field to change: manage_source(action='update', title='...')"
        )
    if title is not None and not title.strip():
        raise InvalidParameter("Invalid title value", hint="Provide a title that is not empty", parameter="title")
    _check_url(url)
    edited = await engine.edit_collection(source.id, CollectionEdit(title=title, url=url))
    return {"success": True, "source": dump_source(edited), "message": "Source updated successfully"}


async def _delete_source(engine: Engine, source_id: str) -> Json:
    source = await find_source(engine, source_id)
    removed = await engine.remove_collection(source.id)
    return {
        "success": True, "message": "Source and all associated documents deleted successfully",
        "source_id": str(source.uid), "documents_deleted": removed.documents, "chunks_deleted": removed.chunks,
    }  # fmt: skip


async def find_source(engine: Engine, source_id: str) -> Collection:
    try:
        return await engine.collection(parse_source_ref(source_id))
    except (CollectionNotFound, errors.Invalid):
        raise CollectionNotFound(f"Invalid source_id: {source_id} not found", source_id=source_id) from None


def _check_url(url: str | None) -> None:
    if url is not None and urlsplit(url).scheme not in ("http", "https"):
        raise InvalidParameter(
            "Invalid URL: must start with http:// or https://", hint="Provide fully qualified URL", parameter="url"
        )


def dump_list_item(source: Collection) -> Json:
    return {
        "id": str(source.uid), "title": truncate_text(source.title, MAX_TITLE_CHARS), "source_type": source.source_type,
        "documents_count": source.document_count, "status": "active", "created_at": format_timestamp(source.created_at),
    }  # fmt: skip


def dump_source(source: Collection) -> Json:
    return {
        "id": str(source.uid), "title": truncate_text(source.title, MAX_TITLE_CHARS), "url": source.url,
        "source_type": source.source_type, "status": "active", "documents_count": source.document_count,
        "created_at": format_timestamp(source.created_at), "updated_at": format_timestamp(source.updated_at),
    }  # fmt: skip


def dump_details(source: Collection) -> Json:
    return {**dump_source(source), "chunks_count": source.chunk_count, "name": source.name}
