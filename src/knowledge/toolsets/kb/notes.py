"""kb_addnote and kb_update_note."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knowledge.model import DocumentEdit, Json, NewNote
from knowledge.toolsets.base import Call, Rate
from knowledge.toolsets.kb.accept import add
from knowledge.toolsets.kb.errors import (
    Collection,
    Number,
    SourcePath,
    Tags,
    Title,
    shelf,
    shelf_or_default,
    shown,
    tools,
)
from knowledge.wire import load_ref


@tools.tool("kb_addnote", rate=Rate.UPLOAD)
async def add_note(
    call: Call,
    text: Annotated[str, Field(description="The text of the note", min_length=1)],
    tags: Tags | None = None,
    collection: Annotated[Collection, Field(description="Where to keep it; documents when it is not given")] = None,
    title: Title = None,
    source_path: SourcePath = None,
) -> Json:
    """Add a text note to the knowledge base; returns the id of the job that makes it searchable"""
    shelf_name, free = shelf_or_default(collection, tags or ())
    note = NewNote(text=text, title=title, collection=shelf_name, tags=free, source_path=source_path)
    return await add(call.engine, note)


@tools.tool("kb_update_note", rate=Rate.MANAGEMENT, destructive=True, idempotent=True)
async def update_note(
    call: Call,
    document_id: Annotated[Number, Field(description="The id of the note; its UUID is accepted too")],
    text: Annotated[str, Field(description="The new text, in place of the old", min_length=1)],
    collection: Annotated[Collection, Field(description="Move the note to this collection as well")] = None,
) -> Json:
    """Replace the text of a note; its id, its tags and, unless another is given, its collection stay"""
    target, _ = shelf(collection, ())
    document = await call.engine.update_note(load_ref(document_id, "document_id"), text)
    if target is not None and target != document.collection:
        moved = DocumentEdit(collection=target, leaving=document.collection)
        document = await call.engine.edit(document.id, moved)
    return shown(document)
