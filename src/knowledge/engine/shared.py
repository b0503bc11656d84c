"""One data folder, many processes: every verb goes to whoever is the engine now, and again when that one ends."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, runtime_checkable

from knowledge.crawls import Crawl, NewCrawl
from knowledge.engine.api import Engine
from knowledge.engine.seat import PATIENCE, Seat
from knowledge.errors import CollectionNotFound, DocumentNotFound, EngineUnreachable, Unavailable
from knowledge.model import (
    Answer,
    Chunk,
    Collection,
    CollectionEdit,
    CollectionRef,
    Document,
    DocumentEdit,
    DocumentFilter,
    Finding,
    Job,
    JobFilter,
    NewCollection,
    NewDocument,
    Original,
    Page,
    Query,
    Ref,
    Removed,
    Report,
    Scope,
    Status,
)

T = TypeVar("T")


@runtime_checkable
class Scoped(Protocol):
    """An engine that can look through another scope."""

    def scoped(self, scope: Scope) -> Engine: ...


class SharedEngine:
    """An engine that is always there. Every write may be repeated: it carries a uid, or says the same thing twice."""

    def __init__(self, seat: Seat, scope: Scope | None = None) -> None:
        self._seat, self._scope = seat, scope

    def scoped(self, scope: Scope) -> SharedEngine:
        """Another view of the same engine; only the process that is the engine can give it."""
        return SharedEngine(self._seat, scope)

    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """Ask the engine; when it ends under our hands, ask the next one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            engine = await self._seat.engine()
            try:
                return await verb(self._seen(engine))
            except EngineUnreachable:
                if self._seat.ours or time.monotonic() > deadline:
                    raise
            await self._seat.lost(engine)

    def _seen(self, engine: Engine) -> Engine:
        if self._scope is None:
            return engine
        if not isinstance(engine, Scoped):
            raise Unavailable("Another process is the engine of this data folder, and shows only its owner's documents")
        return engine.scoped(self._scope)

    # -- the verbs ------------------------------------------------------------------------------

    async def search(self, query: Query) -> Answer:
        return await self._ask(lambda engine: engine.search(query))

    async def add(self, new: NewDocument) -> Job:
        return await self._ask(lambda engine: engine.add(new))

    async def update_note(self, ref: Ref, text: str) -> Document:
        return await self._ask(lambda engine: engine.update_note(ref, text))

    async def job(self, ref: Ref) -> Job:
        return await self._ask(lambda engine: engine.job(ref))

    async def jobs(self, wanted: JobFilter) -> Page[Job]:
        return await self._ask(lambda engine: engine.jobs(wanted))

    async def wait(self, ref: Ref, timeout: float, report: Report | None = None) -> Job:
        deadline = time.monotonic() + timeout
        return await self._ask(lambda engine: engine.wait(ref, max(0.0, deadline - time.monotonic()), report))

    async def cancel(self, ref: Ref) -> Job:
        return await self._ask(lambda engine: engine.cancel(ref))

    async def retry(self, ref: Ref) -> Job:
        return await self._ask(lambda engine: engine.retry(ref))

    async def crawl(self, new: NewCrawl) -> Job:
        return await self._ask(lambda engine: engine.crawl(new))

    async def crawl_report(self, ref: Ref) -> Crawl:
        return await self._ask(lambda engine: engine.crawl_report(ref))

    async def crawls(self, page: int = 1, per_page: int = 50) -> Page[Crawl]:
        return await self._ask(lambda engine: engine.crawls(page, per_page))

    async def document(self, ref: Ref) -> Document:
        return await self._ask(lambda engine: engine.document(ref))

    async def documents(self, wanted: DocumentFilter) -> Page[Document]:
        return await self._ask(lambda engine: engine.documents(wanted))

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        return await self._ask(lambda engine: engine.chunks(ref, offset, limit))

    async def original(self, ref: Ref) -> Original:
        return await self._ask(lambda engine: engine.original(ref))

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        return await self._ask(lambda engine: engine.edit(ref, edit))

    async def remove(self, ref: Ref) -> Removed:
        document = await self.document(ref)
        gone = Removed(1, document.chunk_count, document.size_bytes)
        return await self._ask(_twice(lambda engine: engine.remove(document.id), gone))

    async def clear(self) -> Removed:
        return await self._ask(lambda engine: engine.clear())

    async def collections(self, page: int = 1, per_page: int = 50) -> Page[Collection]:
        return await self._ask(lambda engine: engine.collections(page, per_page))

    async def collection(self, ref: CollectionRef) -> Collection:
        return await self._ask(lambda engine: engine.collection(ref))

    async def create_collection(self, new: NewCollection) -> Collection:
        return await self._ask(lambda engine: engine.create_collection(new))

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection:
        return await self._ask(lambda engine: engine.edit_collection(ref, edit))

    async def remove_collection(self, ref: CollectionRef) -> Removed:
        collection = await self.collection(ref)
        gone = Removed(collection.document_count, collection.chunk_count, 0)
        return await self._ask(_twice(lambda engine: engine.remove_collection(collection.id), gone))

    async def status(self) -> Status:
        return await self._ask(lambda engine: engine.status())

    async def verify(self) -> list[Finding]:
        return await self._ask(lambda engine: engine.verify())

    async def reindex(self, model: str | None = None) -> None:
        return await self._ask(lambda engine: engine.reindex(model))

    async def backup(self) -> Original:
        return await self._ask(lambda engine: engine.backup())


def _twice(verb: Callable[[Engine], Awaitable[Removed]], gone: Removed) -> Callable[[Engine], Awaitable[Removed]]:
    """A removal that may be sent again: what is missing the second time went the first time."""
    attempts = 0

    async def attempt(engine: Engine) -> Removed:
        nonlocal attempts
        attempts += 1
        try:
            return await verb(engine)
        except (DocumentNotFound, CollectionNotFound):
            if attempts == 1:
                raise
            return gone

    return attempt
