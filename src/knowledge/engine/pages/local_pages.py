"""Verbs for the pages of documents in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from knowledge.engine.pages.service import PageService, list_outline
from knowledge.engine.threads import EngineThreads
from knowledge.errors import EngineUnreachable
from knowledge.model import Document, Ref, Scope
from knowledge.model.pages import THUMBNAIL_WIDTH, DocumentPages, OutlineEntry, PageImage, PageWords, Places
from knowledge.store.chunks import ChunkStore
from knowledge.store.documents import DocumentStore

T = TypeVar("T")


class LocalPages:
    def __init__(
        self, threads: EngineThreads, service: PageService, documents: DocumentStore, chunks: ChunkStore, scope: Scope
    ) -> None:
        self._run_in_thread = threads.run
        self._service, self._documents, self._chunks, self._scope = service, documents, chunks, scope

    async def sizes(self, ref: Ref, first: int = 1, last: int | None = None) -> DocumentPages:
        document = await self._find(ref)
        return await self._run_queued(lambda: self._service.list_pages(document, self._scope.owner, first, last))

    async def image(self, ref: Ref, page: int, width: int) -> PageImage:
        document = await self._find(ref)
        known = await self._run_in_thread(lambda: self._service.find_image(document, page, width))
        if known is not None:
            return known
        return await self._run_queued(lambda: self._service.draw(document, self._scope.owner, page, width))

    async def thumbnail(self, ref: Ref) -> PageImage:
        return await self.image(ref, 1, THUMBNAIL_WIDTH)

    async def words(self, ref: Ref, page: int) -> PageWords:
        document = await self._find(ref)
        return await self._run_queued(lambda: self._service.read_words(document, self._scope.owner, page))

    async def places(self, ref: Ref, first: int, last: int) -> Places:
        document = await self._find(ref)
        return await self._run_queued(lambda: self._service.find_places(document, self._scope.owner, first, last))

    async def outline(self, ref: Ref) -> list[OutlineEntry]:
        document = await self._find(ref)
        return await self._run_in_thread(lambda: list_outline(self._chunks.list_sections(document.id)))

    async def _find(self, ref: Ref) -> Document:
        return await self._run_in_thread(lambda: self._documents.find(ref, self._scope))

    async def _run_queued(self, submit: Callable[[], Future[T] | T]) -> T:
        """Wait for work in the drawing queue; a caller that leaves does not stop it, because others may wait for it."""
        submitted = await self._run_in_thread(submit)
        if not isinstance(submitted, Future):
            return submitted
        try:
            return await asyncio.shield(asyncio.wrap_future(submitted))
        except asyncio.CancelledError:
            if submitted.cancelled():
                raise EngineUnreachable("The engine is shutting down") from None
            raise
