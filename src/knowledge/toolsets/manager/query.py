"""query_knowledge and query_corpus: passages for a model to read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from knowledge.engine.api import Engine
from knowledge.errors import InvalidCorpusId, KnowledgeError
from knowledge.model import Answer, Collection, Json, JsonValue
from knowledge.toolsets.base import Call
from knowledge.toolsets.manager import passage_text
from knowledge.toolsets.manager.errors import tools
from knowledge.toolsets.manager.fan_out import (
    MOST_COLLECTIONS,
    MOST_RESULTS,
    Question,
    as_reference,
    check_query,
    everything,
    search_each,
)

ALL = "all accessible collections"
LARGEST_ID = 2**63 - 1


def corpus_id(value: Any) -> int:
    """A corpus' number, or the contract's own refusal of what is none."""
    if type(value) is not int or not 0 < value <= LARGEST_ID:
        raise InvalidCorpusId(f"Invalid corpus ID: {str(value)[:40]}", parameter="corpus_id")
    return value


CorpusId = Annotated[int, Field(description="Corpus ID to query", ge=1), BeforeValidator(corpus_id)]


@tools.tool("query_knowledge", read_only=True)
async def query_knowledge(
    call: Call,
    query: Question,
    collections: Annotated[
        list[str] | None,
        Field(description="Specific collections to search (default: all accessible)", max_length=MOST_COLLECTIONS),
    ] = None,
    n_results: Annotated[int, Field(description="Results per collection", ge=1, le=MOST_RESULTS)] = 5,
) -> Json:
    """Search indexed documents for relevant context using semantic search. Every passage comes with its source."""
    check_query(query)
    within = await chosen(call.engine, collections)
    context, count, notes = await ask(call.engine, query, n_results, within, named=bool(collections))
    names: list[JsonValue] = [collection.name for collection in within]
    return {"context": context, "num_results": count, "collections_searched": names if collections else ALL, **notes}


@tools.tool("query_corpus", read_only=True)
async def query_corpus(
    call: Call,
    corpus_id: CorpusId,
    query: Question,
    n_results: Annotated[int, Field(description="Number of results", ge=1, le=MOST_RESULTS)] = 5,
) -> Json:
    """Query a specific curated corpus by ID. Every passage comes with its source."""
    check_query(query)
    corpus = await call.engine.corpus(corpus_id)
    context, count, notes = await ask(call.engine, query, n_results, [corpus], named=True)
    return {"context": context, "num_results": count, "corpus_id": corpus.id, **notes}


async def chosen(engine: Engine, names: list[str] | None) -> list[Collection]:
    """The collections that a caller names, each once; without names, all that it may read."""
    if not names:
        return [collection async for collection in everything(engine.collections)]
    found = [await engine.collection(reference) for reference in [as_reference(name) for name in names]]
    return list({collection.id: collection for collection in found}.values())


async def ask(
    engine: Engine, query: str, count: int, within: list[Collection], *, named: bool
) -> tuple[str, int, Json]:
    """One context of what every collection answers, how many passages it has, and what the caller should know.

    A collection that went meanwhile is missed where it was named.
    """
    answers: dict[int, Answer] = {}

    async def take(collection: Collection, outcome: Answer | KnowledgeError) -> None:
        if isinstance(outcome, Answer):
            answers[collection.id] = outcome
        elif named:
            raise outcome

    await search_each(engine, query, count, within, take)
    # In the order in which they were named, whichever was ready first, so that equal passages keep their places.
    told = [answers[collection.id] for collection in within if collection.id in answers]
    hits = [hit for answer in told for hit in answer.hits]
    notes: list[JsonValue] = [*dict.fromkeys(note for answer in told for note in answer.notes)]
    return passage_text.context(hits), len(hits), {"notes": notes} if notes else {}
