"""Asking one question of many collections: as many answers from each, and each told as soon as it is ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Annotated, Protocol, TypeAlias, TypeVar

from pydantic import Field

from knowledge.engine.api import Engine
from knowledge.errors import EmptyQuery, Forbidden, InvalidName, InvalidParameter, KnowledgeError, NotFound
from knowledge.model import Answer, Collection, CollectionRef, Filter, Page, Query
from knowledge.wire import load_collection_ref

MOST_RESULTS, LONGEST_QUERY, LONGEST_NAME, MOST_COLLECTIONS = 20, 10_000, 100, 100
PER_PAGE = 200
AT_ONCE = 4
"""How many collections are searched side by side for one question."""

Question: TypeAlias = Annotated[str, Field(description="Natural language query", max_length=LONGEST_QUERY)]
Tell: TypeAlias = Callable[[Collection, Answer | KnowledgeError], Awaitable[None]]
"""Is told what one collection answered, or why it could not."""

T = TypeVar("T")


class Paged(Protocol[T]):
    """A verb that lists a page at a time."""

    def __call__(self, *, page: int, per_page: int) -> Awaitable[Page[T]]: ...


async def everything(verb: Paged[T]) -> AsyncIterator[T]:
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


def as_reference(name: str) -> CollectionRef:
    """A collection as a caller names it; what no collection can be called is refused before anybody looks."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable() or set(name) & set("/\\,:"):
        raise InvalidName(
            f"Invalid collection name: {name[:LONGEST_NAME]!r}",
            hint="Use the names that list_collections shows.", parameter="collections",
        )  # fmt: skip
    try:
        return load_collection_ref(name)
    except InvalidParameter as error:
        raise InvalidName(str(error), hint=error.hint, **error.details) from error


async def search_each(engine: Engine, text: str, count: int, collections: Iterable[Collection], tell: Tell) -> None:
    """Ask every collection and tell what each answers, one after the other as they are ready.

    The first is asked alone: the others then find the question embedded, and what is wrong with the question or with
    the server is known before anything was told.
    """
    waiting, turn = iter(collections), asyncio.Lock()

    async def ask(some: Iterable[Collection]) -> None:
        for collection in some:
            outcome = await _answer(engine, text, count, collection)
            async with turn:
                await tell(collection, outcome)

    await ask(_one(waiting))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(ask(waiting))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _one(items: Iterator[Collection]) -> Iterator[Collection]:
    for item in items:
        yield item
        return


async def _answer(engine: Engine, text: str, count: int, collection: Collection) -> Answer | KnowledgeError:
    """What it answers, or what is wrong with this collection alone; everything else is nobody's collection's fault."""
    wanted = Query(text=text, limit=count, filter=Filter(collections=(collection.id,)), fallback=False)
    try:
        return await engine.search(wanted)
    except (NotFound, Forbidden) as error:
        return error
