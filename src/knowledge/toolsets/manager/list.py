"""list_collections and list_corpuses: what there is to ask."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound
from knowledge.model import Collection, Curation, Document, DocumentFilter, Json, JsonValue
from knowledge.toolsets.base import Call, Rate
from knowledge.toolsets.manager.errors import tools
from knowledge.toolsets.manager.fan_out import everything
from knowledge.toolsets.manager.passage_text import file_name

MOST_FILES = 100
"""So many names of a collection's files are shown; `num_files` says how many there are."""


@tools.tool("list_collections", rate=Rate.LIST, read_only=True)
async def list_collections(call: Call) -> Json:
    """List all accessible document collections with metadata: their files, the newest first, and their sizes."""
    listed: list[JsonValue] = []
    async for collection in everything(call.engine.collections):
        files: list[JsonValue] = [file_name(document) for document in await newest(call.engine, collection)]
        listed.append(
            {
                "name": collection.name, "files": files, "num_chunks": collection.chunk_count,
                "num_files": collection.document_count, "id": collection.id,
            }
        )  # fmt: skip
    return {"collections": listed, "count": len(listed)}


@tools.tool("list_corpuses", rate=Rate.LIST, read_only=True)
async def list_corpuses(
    call: Call,
    category: Annotated[
        Literal["legal", "medical", "research", "general", "technical"] | None,
        Field(description="Filter by category (legal, medical, research, general, technical)"),
    ] = None,
    approved_only: Annotated[bool, Field(description="Only show approved corpuses")] = True,
) -> Json:
    """List available curated corpuses with optional filtering."""
    wanted = partial(call.engine.corpora, category, approved_only)
    corpuses: list[JsonValue] = [shown(corpus) async for corpus in everything(wanted)]
    filters: Json = {"category": category, "approved_only": approved_only}
    return {"corpuses": corpuses, "count": len(corpuses), "filters": filters}


def shown(corpus: Collection) -> Json:
    about = curation(corpus)
    return {
        "id": corpus.id, "name": corpus.name, "display_name": corpus.title, "description": corpus.description,
        "category": about.category, "is_approved": about.is_approved, "chunk_count": corpus.chunk_count,
    }  # fmt: skip


def curation(corpus: Collection) -> Curation:
    assert corpus.curation is not None, "the engine lists no other collection as a corpus"
    return corpus.curation


async def newest(engine: Engine, collection: Collection) -> tuple[Document, ...]:
    """The documents that were added last; none of a collection that went meanwhile."""
    if not collection.document_count:
        return ()
    try:
        return (await engine.documents(DocumentFilter(collection=collection.id, per_page=MOST_FILES))).items
    except CollectionNotFound:
        return ()
