"""The Python API: `open_engine` and `KnowledgeBase`, which `knowledge` exports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from uuid import UUID

from pydantic import SecretStr

from knowledge.config import Settings, read_settings
from knowledge.engine.api import Engine
from knowledge.error_codes import load_job_error
from knowledge.errors import Cancelled, Duplicate, UnsupportedFormat
from knowledge.model import (
    DEFAULT_COLLECTION,
    Content,
    Document,
    DocumentFilter,
    Hit,
    Json,
    NewDocument,
    NewFile,
    NewNote,
    Query,
    SearchFilter,
    SearchMode,
)
from knowledge.surfaces.waiting import wait_for_end, wait_for_model

PAGE_DOCUMENTS = 100


@asynccontextmanager
async def open_engine(
    data: str | PathLike[str] | None = None, *, url: str | None = None, key: str | None = None
) -> AsyncIterator[KnowledgeBase]:
    """Open the knowledge base of a data folder, or of the server at `url`.

    Without either, the environment decides as it does for the command line: `KNOWLEDGE_ENGINE_URL`, `KNOWLEDGE_DATA`,
    or the default data folder. A folder may be open in several processes at once: one of them is the engine, and the
    others send their calls to it. Raises `KnowledgeError` if the folder or the server cannot be used.
    """
    from knowledge.surfaces.http.open_engine import open_engine as open_shared_engine

    async with open_shared_engine(_choose_settings(data, url, key)) as engine:
        yield KnowledgeBase(engine)


def _choose_settings(data: str | PathLike[str] | None, url: str | None, key: str | None) -> Settings:
    if data is not None and url is not None:
        raise ValueError("open_engine takes a data folder or a url, not both")
    settings = read_settings()
    if data is not None:
        settings = settings.model_copy(update={"data": Path(data).expanduser().absolute(), "engine_url": None})
    if url is not None:
        settings = settings.model_copy(update={"engine_url": url})
    return settings if key is None else settings.model_copy(update={"api_key": SecretStr(key)})


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """An open knowledge base: add, search, read, list and remove documents."""

    engine: Engine
    """Every verb of the engine. Not covered by the promise of semantic versioning."""

    async def add_text(
        self,
        text: str,
        *,
        title: str | None = None,
        collection: str = DEFAULT_COLLECTION,
        tags: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Document:
        """Add a text and return its document when it can be found; the same text again returns the first document."""
        new = NewNote(text=text, title=title, collection=collection, tags=tuple(tags), metadata=metadata or {})
        return await self._add(new)

    async def add_file(
        self,
        path: str | PathLike[str],
        *,
        title: str | None = None,
        collection: str = DEFAULT_COLLECTION,
        tags: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Document:
        """Add a file and return its document when it can be found.

        The same content again returns the document that is there; changed content at the same path replaces it. Raises
        `OSError` if the file cannot be opened and `KnowledgeError` if no text can be extracted from it.
        """
        place = Path(path).expanduser().absolute()
        if place.suffix.lower() == ".zip":
            raise UnsupportedFormat(
                f"{place.name} is an archive, and add_file adds one document",
                hint="Unpack it and add its files, or use 'knowledge add'.",
            )
        new = NewFile(
            filename=place.name,
            content=Content.from_path(place),
            source_path=str(place),
            title=title,
            collection=collection,
            tags=tuple(tags),
            metadata=metadata or {},
        )
        return await self._add(new)

    async def _add(self, new: NewDocument) -> Document:
        try:
            job = await wait_for_end(self.engine, await self.engine.add(new))
        except Duplicate as error:
            return await self.engine.document(int(str(error.details["document_id"])))
        if job.error is not None:
            raise load_job_error(job.error)
        if job.document_id is None:
            raise Cancelled(f"Adding {job.filename} was cancelled", job_id=job.id)
        return await self.engine.document(job.document_id)

    async def search(
        self,
        question: str,
        *,
        limit: int = 10,
        collection: str | None = None,
        tags: Sequence[str] = (),
        mode: str = SearchMode.HYBRID.value,
        threshold: float = 0.0,
    ) -> list[Hit]:
        """Return the passages that answer a question, best first.

        `tags` are all required. `mode` is hybrid, text, vector or rerank. Hits with a score below `threshold` are left
        out. The first search waits until the embedding model is loaded.
        """
        wanted = SearchFilter(collections=() if collection is None else (collection,), tags=tuple(tags))
        query = Query(text=question, limit=limit, filter=wanted, mode=SearchMode(mode), threshold=threshold)
        if query.mode is not SearchMode.TEXT:
            await wait_for_model(self.engine)
        return [*(await self.engine.search(query)).hits]

    async def read(self, document: Document | int | UUID) -> str:
        """Return the text of a document: its passages in reading order, separated by blank lines."""
        chunks = await self.engine.chunks(_to_ref(document))
        return "\n\n".join(chunk.text.strip() for chunk in chunks)

    async def documents(self, *, collection: str | None = None, tag: str | None = None) -> AsyncIterator[Document]:
        """Yield the documents, oldest first."""
        number = 1
        while True:
            wanted = DocumentFilter(
                collection=collection, tag=tag, descending=False, page=number, per_page=PAGE_DOCUMENTS
            )
            page = await self.engine.documents(wanted)
            for document in page.items:
                yield document
            if number * PAGE_DOCUMENTS >= page.total:
                return
            number += 1

    async def remove(self, document: Document | int | UUID) -> None:
        """Remove a document; searches no longer return it."""
        await self.engine.remove(_to_ref(document))


def _to_ref(document: Document | int | UUID) -> int | UUID:
    return document.id if isinstance(document, Document) else document
