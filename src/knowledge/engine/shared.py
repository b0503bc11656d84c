"""One data folder, many processes: whoever has the lock is the engine, the others use it, and one follows it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TypeVar, cast

from filelock import FileLock, Timeout

from knowledge.crawls import Crawl, NewCrawl
from knowledge.engine import card as cards
from knowledge.engine.api import Engine
from knowledge.engine.line import open_http
from knowledge.engine.remote import RemoteEngine
from knowledge.errors import (
    CollectionNotFound,
    DeadlineExceeded,
    DocumentNotFound,
    EngineUnreachable,
    KnowledgeError,
    StorageFailed,
    Unauthenticated,
    Unavailable,
)
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

log = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE = 30.0
"""How long we look for an engine before we say that there is none."""
GLANCE = 0.03

OpenLocal = Callable[[], AbstractAsyncContextManager[Engine]]
"""Opens the embedded engine on the folder and tells the others where it is."""


class SharedEngine:
    """An engine that is always there: ours while we hold the folder's lock, otherwise the holder's."""

    def __init__(self, folder: Path, open_local: OpenLocal) -> None:
        self._folder, self._open_local = folder, open_local
        self._turn = asyncio.Lock()
        self._engine: Engine | None = None
        self._stack = AsyncExitStack()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / "engine.lock", timeout=0, thread_local=False, fallback_to_soft=False)
        except OSError as error:
            raise _unusable(folder, error) from error

    @property
    def holds(self) -> bool:
        """Whether this process is the engine."""
        return bool(self._lock.is_locked)

    async def open(self) -> None:
        await self._current()

    async def close(self) -> None:
        async with self._turn:
            await self._let_go()

    def scoped(self, scope: Scope) -> Engine | None:
        """Another view of the engine while this process is it; the holder shows other processes only one."""
        make = getattr(self._engine, "scoped", None) if self.holds else None
        return cast("Engine | None", make(scope)) if make is not None else None

    # -- finding the engine ---------------------------------------------------------------------

    async def _current(self) -> Engine:
        async with self._turn:
            if self._engine is None:
                self._engine = await self._find()
            return self._engine

    async def _find(self) -> Engine:
        """Take the lock, or reach whoever has it; two that start at once settle it here."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self._take():
                return await self._become()
            if (engine := await self._reach()) is not None:
                return engine
            await asyncio.sleep(GLANCE)
        raise Unavailable(
            f"Another process holds the data folder {self._folder} and does not answer",
            hint="Wait until it has ended, or stop it; 'knowledge doctor' tells which one it is.",
        )

    def _take(self) -> bool:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:
            raise _unusable(self._folder, error) from error
        return True

    async def _become(self) -> Engine:
        try:
            return await self._stack.enter_async_context(self._open_local())
        except BaseException:
            self._lock.release()
            raise

    async def _reach(self) -> Engine | None:
        card = cards.read(self._folder)
        if card is None:
            return None
        engine = RemoteEngine(open_http(card.url, card.token))
        try:
            await engine.status()
        except (EngineUnreachable, Unauthenticated, DeadlineExceeded):  # an old card: its writer is gone
            await engine.close()
            return None
        self._stack.push_async_callback(engine.close)
        return engine

    async def _let_go(self) -> None:
        self._engine = None
        try:
            await self._stack.aclose()
        finally:
            self._stack = AsyncExitStack()
            if self._lock.is_locked:
                self._lock.release()

    async def _lost(self, engine: Engine) -> None:
        async with self._turn:
            if self._engine is engine:
                log.info("the engine of this data folder has ended; looking for the next one")
                await self._let_go()

    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """Ask the engine; when it ends under our hands, ask the next one. Every write may be repeated."""
        deadline = time.monotonic() + PATIENCE
        while True:
            engine = await self._current()
            try:
                return await verb(engine)
            except EngineUnreachable:
                if self.holds or time.monotonic() > deadline:
                    raise
            await self._lost(engine)

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

    async def reindex(self) -> None:
        return await self._ask(lambda engine: engine.reindex())

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


def _unusable(folder: Path, error: OSError) -> KnowledgeError:
    return StorageFailed(
        f"The data folder {folder} cannot be used: {error.strerror or error}",
        hint="Choose another one with --data or KNOWLEDGE_DATA, or give yourself the right to write there.",
        folder=str(folder),
    )
