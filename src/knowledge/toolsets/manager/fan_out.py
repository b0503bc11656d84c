"""Asking one question of many collections: as many answers from each, and each told as soon as it is ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Annotated, Protocol, TypeAlias, TypeVar

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.errors import EmptyQuery, Forbidden, InvalidName, InvalidParameter, KnowledgeError, NotFound
from knowledge.model import Collection, CollectionRef, Query, ResultPage, SearchAnswer, SearchFilter
from knowledge.wire import load_collection_ref

MAX_RESULTS, MAX_QUERY_CHARS, MAX_NAME_CHARS, MAX_COLLECTIONS = 20, 10_000, 100, 100
PER_PAGE = 200
MAX_PARALLEL_SEARCHES = 4
"""How many collections one query searches concurrently (fan-out)."""

QueryText: TypeAlias = Annotated[str, Field(description="Natural language query", max_length=MAX_QUERY_CHARS)]
OnAnswer: TypeAlias = Callable[[Collection, SearchAnswer | KnowledgeError], Awaitable[None]]
"""Is told what one collection answered, or why it could not."""

T = TypeVar("T")


class PagedCall(Protocol[T]):
    """A verb that lists a page at a time."""

    def __call__(self, *, page: int, per_page: int) -> Awaitable[ResultPage[T]]: ...


async def iterate_pages(verb: PagedCall[T]) -> AsyncIterator[T]:
    """Every page of a list."""
    number, seen = 1, 0
    while True:
        page = await verb(page=number, per_page=PER_PAGE)
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
    """A collection as a caller names it; what no collection can be called is refused before anybody looks."""
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
    engine: Engine, text: str, count: int, collections: Iterable[Collection], on_answer: OnAnswer
) -> None:
    """Ask every collection and tell what each answers, one after the other as they are ready.

    The first is asked alone: the others then find the question embedded, and what is wrong with the question or with
    the server is known before anything was told.
    """
    waiting, turn = iter(collections), asyncio.Lock()

    async def ask(some: Iterable[Collection]) -> None:
        for collection in some:
            outcome = await _search_one(engine, text, count, collection)
            async with turn:
                await on_answer(collection, outcome)

    await ask(_take_one(waiting))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(MAX_PARALLEL_SEARCHES):
                group.create_task(ask(waiting))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _take_one(items: Iterator[Collection]) -> Iterator[Collection]:
    for item in items:
        yield item
        return


async def _search_one(engine: Engine, text: str, count: int, collection: Collection) -> SearchAnswer | KnowledgeError:
    """What it answers, or what is wrong with this collection alone; everything else is nobody's collection's fault."""
    wanted = Query(text=text, limit=count, filter=SearchFilter(collections=(collection.id,)), fallback=False)
    try:
        return await engine.search(wanted)
    except (NotFound, Forbidden) as error:
        return error
