"""The server-sent events of contract 001's streaming query."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError, NotFound
from knowledge.model import Collection, Hit, Json, JsonValue, SearchAnswer
from knowledge.toolsets.hidden_characters import strip_answer
from knowledge.toolsets.manager.errors import find_wording
from knowledge.toolsets.manager.fan_out import ManagerQuery, check_query, parse_collection_name, search_collections
from knowledge.toolsets.manager.tools import find_collections
from knowledge.toolsets.values import dump_location, link_hit

Write: TypeAlias = Callable[[Json], Awaitable[None]]
"""Sends one event."""


async def stream_query(
    engine: Engine,
    write: Write,
    query: str,
    collections: Sequence[str] | None = None,
    n_results: int = 5,
    trusted_only: bool = False,
) -> None:
    """Write the events of one query; an invalid query is raised before the first event."""
    check_query(query)
    within, missing = await _find_targets(engine, collections)
    names: list[JsonValue] = [*(collection.name for collection in within), *missing]
    events = _QueryEvents(
        lambda event: write(strip_answer(event)), {"type": "metadata", "query": query, "collections": names}, missing
    )
    await search_collections(engine, ManagerQuery(query, n_results, trusted_only), within, events.write_answer)
    await events.finish()


async def _find_targets(
    engine: Engine, names: Sequence[str] | None
) -> tuple[list[Collection], dict[str, KnowledgeError]]:
    """Return the collections to search, and the errors of the named ones that do not exist."""
    if not names:
        return await find_collections(engine, None), {}
    found: dict[int, Collection] = {}
    missing: dict[str, KnowledgeError] = {}
    for name, reference in {name: parse_collection_name(name) for name in names}.items():
        try:
            collection = await engine.collection(reference)
            found[collection.id] = collection
        except NotFound as error:
            missing[name] = error
    return [*found.values()], missing


class _QueryEvents:
    """Writes events in the contract's order; the metadata event is sent with the first answer."""

    def __init__(self, write: Write, head: Json, missing: dict[str, KnowledgeError]) -> None:
        self._write, self._head, self._missing = write, head, missing
        self._head_sent, self._total = False, 0

    async def write_answer(self, collection: Collection, outcome: SearchAnswer | KnowledgeError) -> None:
        await self._write_head()
        if isinstance(outcome, KnowledgeError):
            await self._write(make_collection_error_event(collection.name, outcome))
            return
        for rank, hit in enumerate(outcome.hits, start=1):
            await self._write(make_result_event(collection.name, hit, rank))
        self._total += len(outcome.hits)
        count = len(outcome.hits)
        await self._write({"type": "collection_complete", "collection": collection.name, "num_results": count})

    async def finish(self) -> None:
        await self._write_head()
        await self._write({"type": "done", "total_results": self._total})

    async def _write_head(self) -> None:
        if self._head_sent:
            return
        self._head_sent = True
        await self._write(self._head)
        for name, error in self._missing.items():
            await self._write(make_collection_error_event(name, error))


def make_result_event(collection: str, hit: Hit, rank: int) -> Json:
    chunk, document = hit.chunk, hit.document
    return {
        "type": "result", "collection": collection, "text": chunk.text, "relevance_score": round(hit.score, 4),
        "rank": rank, "document_id": document.id, "document": document.title, "page": chunk.page,
        "section": list(chunk.section), "chunk_index": chunk.index, "url": document.url,
        "source_path": document.source_path, "resource": link_hit(hit), "added_by": document.added_by,
        **dump_location(replace(hit, lines=chunk.lines)),
    }  # fmt: skip


def make_collection_error_event(collection: str, error: KnowledgeError) -> Json:
    return {"type": "collection_error", "collection": collection, "error": find_wording(error).meaning}


def make_error_event(error: KnowledgeError) -> Json:
    """Return the error event; authentication errors use the contract's description of the code."""
    wording = find_wording(error)
    detail = wording.meaning if error.status == 401 else wording.message or str(error)
    return {"type": "error", "error_code": wording.code, "detail": detail}
