"""The streaming query of contract 001: what each of its events says, and in which order they come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError, NotFound
from knowledge.model import Answer, Collection, Hit, Json, JsonValue
from knowledge.toolsets.manager.errors import word
from knowledge.toolsets.manager.fan_out import as_reference, check_query, search_each
from knowledge.toolsets.manager.query import chosen

Write: TypeAlias = Callable[[Json], Awaitable[None]]
"""Sends one event."""


async def stream(
    engine: Engine, write: Write, query: str, collections: Sequence[str] | None = None, n_results: int = 5
) -> None:
    """Answer collection after collection; what is wrong with the question is raised before the first event."""
    check_query(query)
    within, missing = await _targets(engine, collections)
    names: list[JsonValue] = [*(collection.name for collection in within), *missing]
    events = _Events(write, {"type": "metadata", "query": query, "collections": names}, missing)
    await search_each(engine, query, n_results, within, events.tell)
    await events.finish()


async def _targets(engine: Engine, names: Sequence[str] | None) -> tuple[list[Collection], dict[str, KnowledgeError]]:
    """The collections to ask, and those among the named ones that are not there."""
    if not names:
        return await chosen(engine, None), {}
    found: dict[int, Collection] = {}
    missing: dict[str, KnowledgeError] = {}
    for name, reference in {name: as_reference(name) for name in names}.items():
        try:
            collection = await engine.collection(reference)
            found[collection.id] = collection
        except NotFound as error:
            missing[name] = error
    return [*found.values()], missing


class _Events:
    """Keeps the order: the head of the answer goes out with the first collection that has answered."""

    def __init__(self, write: Write, head: Json, missing: dict[str, KnowledgeError]) -> None:
        self._write, self._head, self._missing = write, head, missing
        self._begun, self._total = False, 0

    async def tell(self, collection: Collection, outcome: Answer | KnowledgeError) -> None:
        await self._begin()
        if isinstance(outcome, KnowledgeError):
            await self._write(collection_error(collection.name, outcome))
            return
        for rank, hit in enumerate(outcome.hits, start=1):
            await self._write(result(collection.name, hit, rank))
        self._total += len(outcome.hits)
        count = len(outcome.hits)
        await self._write({"type": "collection_complete", "collection": collection.name, "num_results": count})

    async def finish(self) -> None:
        await self._begin()
        await self._write({"type": "done", "total_results": self._total})

    async def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        await self._write(self._head)
        for name, error in self._missing.items():
            await self._write(collection_error(name, error))


def result(collection: str, hit: Hit, rank: int) -> Json:
    chunk, document = hit.chunk, hit.document
    return {
        "type": "result", "collection": collection, "text": chunk.text, "relevance_score": round(hit.score, 4),
        "rank": rank, "document_id": document.id, "document": document.title, "page": chunk.page,
        "section": list(chunk.section), "chunk_index": chunk.index, "url": document.url,
        "source_path": document.source_path,
    }  # fmt: skip


def collection_error(collection: str, error: KnowledgeError) -> Json:
    return {"type": "collection_error", "collection": collection, "error": word(error).meaning}


def error_event(error: KnowledgeError) -> Json:
    """Why there is no answer; keys are spoken of in the contract's own words."""
    spoken = word(error)
    detail = spoken.meaning if error.status == 401 else spoken.sentence or str(error)
    return {"type": "error", "error_code": spoken.code, "detail": detail}
