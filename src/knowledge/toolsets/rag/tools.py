"""The tools of contract 002, in the contract's order."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, InvalidParameter
from knowledge.model import Hit, Json, Query, SearchFilter, SearchMode
from knowledge.toolsets.answer_budget import TRUNCATED
from knowledge.toolsets.arguments import Identifier, TrustedOnly
from knowledge.toolsets.base import ToolCall
from knowledge.toolsets.rag import crawls, documents, sources
from knowledge.toolsets.rag.errors import (
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    clamp,
    make_error_formatter,
    raise_missing_parameter,
    tools,
    truncate_text,
)
from knowledge.toolsets.rag.sources import find_source
from knowledge.toolsets.values import dump_location, link_hit

MAX_MATCHES = 50
MODES = {"vector": SearchMode.VECTOR, "hybrid": SearchMode.HYBRID, "rerank": SearchMode.RERANK}


@tools.tool("search_knowledge_base", title="Search the knowledge base", read_only=True)
async def search_knowledge_base(
    call: ToolCall,
    query: Annotated[str, Field(description="Natural language search query", max_length=10_000)],
    source_id: Annotated[Identifier | None, Field(description="Optional filter to specific source/collection")] = None,
    match_count: Annotated[int, Field(description="Number of results to return (max 50)")] = 10,
    search_type: Annotated[
        str,
        Field(description='Search strategy - "vector" (fast), "hybrid" (better recall), "rerank" (highest quality)'),
    ] = "hybrid",
    similarity_threshold: Annotated[
        float, Field(description="Minimum relevance (0.0-1.0); results below it are dropped")
    ] = 0.05,
    trusted_only: TrustedOnly = False,
) -> Json:
    """Search documents with vector or hybrid search."""
    if not query.strip():
        raise_missing_parameter("query", "search", "Provide a search query: search_knowledge_base(query='...')")
    if search_type not in MODES:
        raise InvalidParameter(
            f"Invalid search_type: {search_type}", hint="Use 'vector', 'hybrid', or 'rerank'", parameter="search_type"
        )
    limit, threshold = clamp(match_count, MAX_MATCHES), min(max(similarity_threshold, 0.0), 1.0)
    within = ((await find_source(call.engine, source_id)).id,) if source_id else ()
    chosen = SearchFilter(collections=within, trusted_only=trusted_only or call.limits.trusted_only)
    wanted = Query(text=query, limit=limit, mode=MODES[search_type], threshold=threshold, filter=chosen)
    answer = await call.engine.search(wanted)
    sources = await _find_source_ids(call.engine, answer.hits)
    results = [dump_hit(hit, search_type, sources[hit.document.collection_id]) for hit in answer.hits]
    body: Json = {
        "success": True, "results": [*results], "count": len(results), "search_type": search_type, "query": query,
        "match_count": limit, "similarity_threshold": threshold,
    }  # fmt: skip
    return {**body, "notes": list(answer.notes)} if answer.notes else body


async def _find_source_ids(engine: Engine, hits: tuple[Hit, ...]) -> dict[int, str]:
    """Return the UUID of the source of each hit, by collection id."""
    found: dict[int, str] = {}
    for identity in {hit.document.collection_id for hit in hits}:
        try:
            found[identity] = str((await engine.collection(identity)).uid)
        except CollectionNotFound:  # deleted since the search
            found[identity] = ""
    return found


def dump_hit(hit: Hit, search_type: str, source_id: str) -> Json:
    document, chunk = hit.document, hit.chunk
    # Joined chunks are often longer than MAX_TEXT_CHARS; the best chunk alone is better than a truncated join.
    text = hit.text if len(hit.text) <= MAX_TEXT_CHARS else chunk.text
    truncated: Json = {TRUNCATED: True} if len(text) > MAX_TEXT_CHARS else {}
    return {
        "chunk_id": str(chunk.uid),
        "document_id": str(document.uid),
        "document_title": truncate_text(document.title, MAX_TITLE_CHARS),
        "text": truncate_text(text),
        **truncated,
        "score": round(hit.score, 4),
        "match_type": search_type,
        "matched_by": hit.matched_by,
        "resource": link_hit(hit),
        "metadata": {
            "source_id": source_id,
            "chunk_index": chunk.index,
            "url": document.url,
            "page": chunk.page,
            "section": list(chunk.section),
            **dump_location(hit),
            "document_type": document.doc_type,
            "source_path": document.source_path,
            "added_by": document.added_by,
        },
    }


__all__ = ["tools"]

ORDER = ("search_knowledge_base", "manage_document", "manage_source", "crawl_website", "manage_crawl_job")
MODULES = (documents, sources, crawls)
"""Imported because their import registers their tools."""

tools.tools.sort(key=lambda tool: ORDER.index(tool.name))
tools.tools[:] = [replace(tool, format_error=make_error_formatter(tool.name)) for tool in tools.tools]
