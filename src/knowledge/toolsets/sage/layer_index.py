"""Index the layers as private collections of the engine, updated incrementally from the content folder."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, DocumentNotFound, Duplicate, KnowledgeError
from knowledge.model import (
    Document,
    DocumentEdit,
    DocumentFilter,
    Job,
    NewNote,
    Query,
    SearchAnswer,
    SearchFilter,
    SearchMode,
)
from knowledge.toolsets.sage.library import ALL_LAYERS, LAYERS, Library
from knowledge.toolsets.sage.page import LayerPage
from knowledge.toolsets.sage.timeouts import collect_within

log = logging.getLogger(__name__)

OpenLayers: TypeAlias = Callable[[], AbstractAsyncContextManager[Engine | None]]
"""Opens the engine in the scope of the layers, or None if the engine does not support scopes."""

PER_PAGE = 500
READING_SECONDS = 60.0
RETRY_SECONDS = 60.0
EMBEDDING_SECONDS = 600.0
CHUNKS_PER_SEARCH = 40
"""Chunks retrieved per search, grouped into pages afterwards."""


class LayerIndex:
    """Hybrid search over the layers, available after the background task `run` has indexed them."""

    def __init__(self, library: Library, open_layers: OpenLayers) -> None:
        self._library, self._open = library, open_layers
        self._wanted, self._changed = asyncio.Event(), asyncio.Event()
        self._engine: Engine | None = None
        self.state = "not asked for"
        """One of: not asked for, opening, filling, ready, words alone (shown by sage_info)."""
        self.embedded_pages = 0
        """Pages added to the engine since the start."""

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"

    def request_engine(self) -> None:
        """Open the engine if it is not open yet."""
        self._wanted.set()

    def mark_changed(self) -> None:
        self._changed.set()

    async def search(self, text: str, layer: str) -> SearchAnswer:
        """Return hybrid search results, empty for a layer without pages."""
        assert self._engine is not None
        wanted = SearchFilter() if layer == ALL_LAYERS else SearchFilter(collections=(layer,))
        try:
            return await self._engine.search(Query(text=text, limit=CHUNKS_PER_SEARCH, filter=wanted))
        except CollectionNotFound:
            return SearchAnswer((), 0, SearchMode.HYBRID)

    # -- indexing -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Open the engine on request and synchronize its collections with the folder until cancelled."""
        await self._wanted.wait()
        while True:
            try:
                await self._open_and_feed()
            except KnowledgeError as error:
                log.warning("layer index unavailable, searching keywords only: %s", error)
            except Exception:
                log.exception("layer index failed, searching keywords only")
            self._engine, self.state = None, "words alone"
            await asyncio.sleep(RETRY_SECONDS)  # another process may hold the data folder until then

    async def _open_and_feed(self) -> None:
        if self.state != "words alone":
            self.state = "opening"
        async with self._open() as engine:
            if engine is not None:
                self._engine = engine
                await self._feed(engine)

    async def _feed(self, engine: Engine) -> None:
        while True:
            self._changed.clear()
            self.state = self.state if self.is_ready else "filling"
            await self._sync(engine)
            self.state = "ready"
            await self._changed.wait()

    async def _sync(self, engine: Engine) -> None:
        read = await collect_within(self._library.load_pages(), READING_SECONDS)
        wanted = {page.path: page for page in read.items}
        held = {document.source_path or "": document for document in await _list_documents(engine)}
        if read.complete:
            broken = self._library.broken
            for path in held.keys() - wanted.keys() - broken.keys():
                await _remove_document(engine, held[path])
        jobs = [await self._add_page(engine, page, held.get(path)) for path, page in wanted.items()]
        for job in jobs:
            if job is not None:
                await _wait_for_job(engine, job)

    async def _add_page(self, engine: Engine, page: LayerPage, held: Document | None) -> Job | None:
        """Add a new or changed page; if only the title changed, edit it without embedding again."""
        if held is not None and held.sha256 == hashlib.sha256(page.body.encode()).hexdigest():
            if held.title != page.title:
                await engine.edit(held.id, DocumentEdit(title=page.title))
            return None
        new = NewNote(text=page.body, title=page.title, collection=page.layer, source_path=page.path)
        try:
            job = await engine.add(new)
        except Duplicate:  # the layer has another page with the same text
            return None
        self.embedded_pages += 1
        return job


async def _list_documents(engine: Engine) -> list[Document]:
    found: list[Document] = []
    for layer in LAYERS:
        number, total = 0, 1
        while number * PER_PAGE < total:
            number += 1
            try:
                page = await engine.documents(DocumentFilter(collection=layer, page=number, per_page=PER_PAGE))
            except CollectionNotFound:
                break
            total = page.total
            found += page.items
    return found


async def _remove_document(engine: Engine, document: Document) -> None:
    try:
        await engine.remove(document.id)
    except DocumentNotFound:
        return


async def _wait_for_job(engine: Engine, job: Job) -> None:
    ended = await engine.wait(job.id, EMBEDDING_SECONDS)
    if ended.error is not None:
        log.warning("page %s was not indexed: %s", ended.filename, ended.error.message)
