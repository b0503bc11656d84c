"""Searches many collections with one query and reports each answer as soon as it is ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeAlias, TypeVar

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.errors import EmptyQuery, Forbidden, InvalidName, InvalidParameter, KnowledgeError, NotFound
from knowledge.model import Collection, CollectionRef, Query, ResultPage, SearchAnswer, SearchFilter
from knowledge.wire import load_collection_ref

MAX_RESULTS, MAX_QUERY_CHARS, MAX_NAME_CHARS, MAX_COLLECTIONS = 20, 10_000, 100, 100
PER_PAGE = 200
MAX_PARALLEL_SEARCHES = 4
"""Collections that one query searches concurrently."""

QueryText: TypeAlias = Annotated[str, Field(description="Natural language query", max_length=MAX_QUERY_CHARS)]
OnAnswer: TypeAlias = Callable[[Collection, SearchAnswer | KnowledgeError], Awaitable[None]]
"""Receives the answer of one collection, or its error."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManagerQuery:
    """A query that is put to each of several collections."""

    text: str
    count: int
    """Hits of each collection."""
    trusted_only: bool = False


class PagedCall(Protocol[T]):
    """An engine method that lists one page."""

    def __call__(self, *, page: int, per_page: int) -> Awaitable[ResultPage[T]]: ...


async def iterate_pages(list_page: PagedCall[T]) -> AsyncIterator[T]:
    """Yield the items of all pages."""
    number, seen = 1, 0
    while True:
        page = await list_page(page=number, per_page=PER_PAGE)
        for item in page.items:
            yield item
        seen += len(page.items)
        if not page.items or seen >= page.total:
            return
        number += 1


def check_query(query: str) -> str:
    if not query.strip():
        raise EmptyQuery("Query cannot be empty")
    return query


def parse_collection_name(name: str) -> CollectionRef:
    """Parse a collection name or id; raise InvalidName for a name that no collection can have."""
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable() or set(name) & set("/\\,:"):
        raise InvalidName(
            f"Invalid collection name: {name[:MAX_NAME_CHARS]!r}",
            hint="Use the names that list_collections shows.", parameter="collections",
        )  # fmt: skip
    try:
        return load_collection_ref(name)
    except InvalidParameter as error:
        raise InvalidName(str(error), hint=error.hint, **error.details) from error


async def search_collections(
    engine: Engine, query: ManagerQuery, collections: Iterable[Collection], on_answer: OnAnswer
) -> None:
    """Search every collection and pass each answer to `on_answer`, one at a time, as they are ready.

    The first collection is searched alone: the others then find the query embedded in the cache, and an error of the
    query or the server is raised before the first answer.
    """
    remaining, answer_lock = iter(collections), asyncio.Lock()

    async def search_all(some: Iterable[Collection]) -> None:
        for collection in some:
            outcome = await _search_one(engine, query, collection)
            async with answer_lock:
                await on_answer(collection, outcome)

    await search_all(_take_one(remaining))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(MAX_PARALLEL_SEARCHES):
                group.create_task(search_all(remaining))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _take_one(items: Iterator[Collection]) -> Iterator[Collection]:
    for item in items:
        yield item
        return


async def _search_one(engine: Engine, query: ManagerQuery, collection: Collection) -> SearchAnswer | KnowledgeError:
    """Search one collection; return an error of this collection, raise any other."""
    within = SearchFilter(collections=(collection.id,), trusted_only=query.trusted_only)
    wanted = Query(text=query.text, limit=query.count, filter=within, fallback=False)
    try:
        return await engine.search(wanted)
    except (NotFound, Forbidden) as error:
        return error
