"""The layers as collections of the engine, which nobody else sees: fed from the folder, and only with what changed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, DocumentNotFound, Duplicate, KnowledgeError
from knowledge.model import Answer, Document, DocumentEdit, DocumentFilter, Filter, Job, Mode, NewNote, Query
from knowledge.toolsets.sage.deadline import gather
from knowledge.toolsets.sage.library import ALL, LAYERS, Library
from knowledge.toolsets.sage.page import Page

log = logging.getLogger(__name__)

OpenShelves: TypeAlias = Callable[[], AbstractAsyncContextManager[Engine | None]]
"""Opens the engine in the scope of the layers; None where the engine at hand cannot give it."""

PER_PAGE = 500
READING_SECONDS = 60.0
AGAIN_SECONDS = 60.0
EMBEDDING_SECONDS = 600.0
DEPTH = 40
"""How many passages are looked at for the pages that a search answers."""


class Shelves:
    """One task feeds them (`run`); searches are answered by words elsewhere until they are filled."""

    def __init__(self, library: Library, open_shelves: OpenShelves) -> None:
        self._library, self._open = library, open_shelves
        self._wanted, self._changed = asyncio.Event(), asyncio.Event()
        self._engine: Engine | None = None
        self.state = "not asked for"
        """not asked for, opening, filling, ready, or words alone."""
        self.embedded = 0
        """How many pages were given to the engine since the start."""

    @property
    def ready(self) -> bool:
        return self.state == "ready"

    def want(self) -> None:
        """Somebody searches, so that the engine is worth its start."""
        self._wanted.set()

    def changed(self) -> None:
        self._changed.set()

    async def search(self, text: str, layer: str) -> Answer:
        """By words and meaning; an empty answer for a layer without pages."""
        assert self._engine is not None
        wanted = Filter() if layer == ALL else Filter(collections=(layer,))
        try:
            return await self._engine.search(Query(text=text, limit=DEPTH, filter=wanted))
        except CollectionNotFound:
            return Answer((), 0, Mode.HYBRID)

    # -- feeding --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Open the engine when it is wanted, and keep its collections as the folder is."""
        await self._wanted.wait()
        while True:
            try:
                await self._serve()
            except KnowledgeError as error:
                log.warning("the layers are searched by words alone: %s", error)
            except Exception:
                log.exception("the layers are searched by words alone")
            self._engine, self.state = None, "words alone"
            await asyncio.sleep(AGAIN_SECONDS)  # whoever holds the engine may be gone by then

    async def _serve(self) -> None:
        if self.state != "words alone":
            self.state = "opening"
        async with self._open() as engine:
            if engine is not None:
                self._engine = engine
                await self._feed(engine)

    async def _feed(self, engine: Engine) -> None:
        while True:
            self._changed.clear()
            self.state = self.state if self.ready else "filling"
            await self._bring_up_to_date(engine)
            self.state = "ready"
            await self._changed.wait()

    async def _bring_up_to_date(self, engine: Engine) -> None:
        read = await gather(self._library.load(), READING_SECONDS)
        wanted = {page.path: page for page in read.items}
        held = {document.source_path or "": document for document in await _documents(engine)}
        if read.complete:
            broken = self._library.broken
            for path in held.keys() - wanted.keys() - broken.keys():
                await _remove(engine, held[path])
        jobs = [await self._put(engine, page, held.get(path)) for path, page in wanted.items()]
        for job in jobs:
            if job is not None:
                await _finished(engine, job)

    async def _put(self, engine: Engine, page: Page, held: Document | None) -> Job | None:
        """Give the engine a page that it does not have like this; another title alone is no other text."""
        if held is not None and held.sha256 == hashlib.sha256(page.body.encode()).hexdigest():
            if held.title != page.title:
                await engine.edit(held.id, DocumentEdit(title=page.title))
            return None
        new = NewNote(text=page.body, title=page.title, collection=page.layer, source_path=page.path)
        try:
            job = await engine.add(new)
        except Duplicate:  # the same text stands in this layer under another name
            return None
        self.embedded += 1
        return job


async def _documents(engine: Engine) -> list[Document]:
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


async def _remove(engine: Engine, document: Document) -> None:
    try:
        await engine.remove(document.id)
    except DocumentNotFound:
        return


async def _finished(engine: Engine, job: Job) -> None:
    ended = await engine.wait(job.id, EMBEDDING_SECONDS)
    if ended.error is not None:
        log.warning("the page %s is not in the index: %s", ended.filename, ended.error.message)
