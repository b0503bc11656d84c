"""The CorporaApi of LocalEngine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from knowledge.engine.events.broadcaster import EventBroadcaster, Signal
from knowledge.engine.threads import EngineThreads
from knowledge.model import (
    Chunk,
    Collection,
    CollectionRef,
    CorpusEdit,
    Document,
    DocumentFilter,
    Grant,
    NewCorpus,
    Permission,
    Ref,
    RemovalResult,
    ResultPage,
    Scope,
)
from knowledge.model.documents import ReviewedPart
from knowledge.store.corpora import CorpusStore

T = TypeVar("T")


class CorpusReader(Protocol):
    """The verbs of the engine that a review needs."""

    async def documents(self, wanted: DocumentFilter) -> ResultPage[Document]: ...

    async def document(self, ref: Ref) -> Document: ...

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]: ...


class LocalCorpora:
    def __init__(
        self,
        threads: EngineThreads,
        store: CorpusStore,
        scope: Scope,
        remove_collection: Callable[[CollectionRef], Awaitable[RemovalResult]],
        broadcaster: EventBroadcaster,
        read_corpus: Callable[[int], CorpusReader],
    ) -> None:
        self._threads, self._store, self._scope = threads, store, scope
        self._remove_collection, self._broadcaster = remove_collection, broadcaster
        self._read_corpus = read_corpus

    async def _run(self, work: Callable[[], T]) -> T:
        done = await self._threads.run(work)
        self._broadcaster.notify(Signal.CHANGES)
        return done

    async def list_page(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> ResultPage[Collection]:
        return await self._run(lambda: self._store.page(self._scope, category, approved_only, page, per_page))

    async def get(self, ref: int) -> Collection:
        return await self._run(lambda: self._store.find(ref, self._scope))

    async def create(self, new: NewCorpus) -> Collection:
        return await self._run(lambda: self._store.create(new, self._scope))

    async def edit(self, ref: int, edit: CorpusEdit) -> Collection:
        return await self._run(lambda: self._store.edit(ref, edit, self._scope))

    async def remove(self, ref: int) -> RemovalResult:
        return await self._remove_collection((await self.get(ref)).id)

    async def list_grants(self, ref: int) -> list[Grant]:
        return await self._run(lambda: self._store.list_grants(ref, self._scope))

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        await self._run(lambda: self._store.grant(ref, username, permission, self._scope))

    async def revoke_grant(self, ref: int, username: str) -> None:
        await self._run(lambda: self._store.revoke(ref, username, self._scope))

    # -- approval -------------------------------------------------------------------------------

    async def list_pending(self) -> list[Collection]:
        return await self._run(self._store.list_pending)

    async def approve(self, ref: int) -> Collection:
        return await self._run(lambda: self._store.set_approved(ref, approved=True))

    async def decline(self, ref: int, reason: str = "") -> Collection:
        return await self._run(lambda: self._store.decline(ref, reason))

    async def review(self, ref: int, page: int = 1, per_page: int = 50) -> ResultPage[Document]:
        wanted = DocumentFilter(collection=ref, finished=True, page=page, per_page=per_page)
        return await (await self._open_review(ref)).documents(wanted)

    async def review_chunks(self, ref: int, document: Ref, offset: int = 0, limit: int | None = None) -> ReviewedPart:
        reader = await self._open_review(ref)
        found = await reader.document(document)
        return ReviewedPart(found, tuple(await reader.chunks(found.id, offset, limit)) if limit != 0 else ())

    async def _open_review(self, ref: int) -> CorpusReader:
        """Return an engine that reads this corpus and nothing else, while its owner has made it public."""
        await self._threads.run(lambda: self._store.require_public(ref))
        return self._read_corpus(ref)

    async def revoke_approval(self, ref: int) -> Collection:
        return await self._run(lambda: self._store.set_approved(ref, approved=False))
