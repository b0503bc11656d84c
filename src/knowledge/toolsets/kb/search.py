"""kb_search."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knowledge.errors import CollectionNotFound, InvalidParameter
from knowledge.model import Answer, Filter, Hit, Json, Mode, Query
from knowledge.toolsets.base import Call
from knowledge.toolsets.kb.errors import Collection, Tags, free_tags, shelf, tools
from knowledge.wire.documents import section_header
from knowledge.wire.values import dump_moment


@tools.tool("kb_search", read_only=True)
async def search(
    call: Call,
    query: Annotated[str, Field(description="What to look for, in words", min_length=1, max_length=10_000)],
    top: Annotated[int, Field(description="How many passages to return", ge=1, le=100)] = 10,
    tags: Annotated[Tags | None, Field(description="Only documents that have all of these tags")] = None,
    collection: Annotated[Collection, Field(description="Only documents of this collection")] = None,
    fts_only: Annotated[bool, Field(description="Search by words alone")] = False,
    vec_only: Annotated[bool, Field(description="Search by meaning alone")] = False,
) -> Json:
    """Search the knowledge base; returns the passages that answer the query, with their documents, best first"""
    named, free = shelf(collection, tags or ())
    within = Filter(collections=() if named is None else (named,), tags=free)
    wanted = Query(text=query, limit=top, filter=within, mode=_mode(fts_only, vec_only))
    try:
        answer = await call.engine.search(wanted)
    except CollectionNotFound:  # nothing was kept there yet
        answer = Answer((), 0, wanted.mode, (f"There is no collection '{named}' yet",))
    body: Json = {
        "query": query, "results": [found(hit) for hit in answer.hits], "total_matches": answer.total,
        "returned": len(answer.hits),
    }  # fmt: skip
    return {**body, "notes": [*answer.notes]} if answer.notes else body


def _mode(fts_only: bool, vec_only: bool) -> Mode:
    if fts_only and vec_only:
        raise InvalidParameter(
            "fts_only and vec_only contradict each other", hint="Set one of them.", parameter="vec_only"
        )
    return Mode.TEXT if fts_only else Mode.VECTOR if vec_only else Mode.HYBRID


def found(hit: Hit) -> Json:
    document, chunk = hit.document, hit.chunk
    return {
        "chunk_id": chunk.id, "document_id": document.id, "score": round(hit.score, 4), "matched_by": hit.matched_by,
        "text": hit.text, "chunk_index": chunk.index, "chunk_indexes": [*hit.indexes],
        "chunk_metadata": {"page": chunk.page, "section_header": section_header(chunk)},
        "title": document.title, "doc_type": document.doc_type, "collection": document.collection,
        "tags": [*free_tags(document)], "metadata": document.metadata, "source_path": document.source_path,
        "url": document.url, "created_at": dump_moment(document.created_at),
    }  # fmt: skip
