"""The engine elsewhere: every verb over /api/v1, and every error as the class that was raised there."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from knowledge import wire
from knowledge.engine.remote.accounts import RemoteAccounts
from knowledge.engine.remote.corpora import RemoteCorpora
from knowledge.engine.remote.http import LONG, Line, open_http
from knowledge.model import (
    Answer,
    Caller,
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
    Json,
    NewCollection,
    NewDocument,
    NewFile,
    Original,
    Page,
    Query,
    Ref,
    Removed,
    Report,
    Status,
)
from knowledge.model.crawls import Crawl, NewCrawl

if TYPE_CHECKING:
    import httpx

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0


class RemoteEngine(RemoteAccounts, RemoteCorpora):
    """What may be sent twice without happening twice is repeated once when the connection fails; nothing else is."""

    def __init__(self, http: httpx.AsyncClient, key: str | None = None) -> None:
        self._http = http
        self._line = Line(http, key)

    def bearing(self, key: str) -> RemoteEngine:
        """The same engine over the same connections, asked with another key."""
        return RemoteEngine(self._http, key)

    def as_caller(self, caller: Caller) -> RemoteEngine:
        """An account is judged there, by its own key; everybody else acts with the key of this line."""
        return self.bearing(caller.key) if caller.key is not None else self

    async def close(self) -> None:
        await self._http.aclose()

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> Answer:
        return await self._line.ask(wire.load_answer, "POST", "/search", json=wire.dump_query(query), again=True)

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        if isinstance(new, NewFile):
            return await self._line.upload(wire.load_job, "/jobs", new)
        return await self._line.ask(wire.load_job, "POST", "/jobs", json=wire.dump_note(new), again=True)

    async def update_note(self, ref: Ref, text: str) -> Document:
        body: Json = {"text": text}
        return await self._line.ask(wire.load_document, "PATCH", f"/notes/{ref}", json=body, timeout=LONG)

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job:
        return await self._line.ask(wire.load_job, "GET", f"/jobs/{ref}", again=True)

    async def jobs(self, wanted: JobFilter) -> Page[Job]:
        params = wire.dump_job_filter(wanted)
        return await self._line.ask(wire.load_jobs, "GET", "/jobs", params=params, again=True)

    async def wait(self, ref: Ref, timeout: float, report: Report | None = None) -> Job:
        deadline, pause = time.monotonic() + timeout, FIRST_PAUSE
        while True:
            job = await self.job(ref)
            if report is not None and not job.status.ended:
                report(job.step, job.done, job.total)
            remaining = deadline - time.monotonic()
            if job.status.ended or remaining <= 0:
                return job
            await asyncio.sleep(min(pause, remaining))
            pause = min(pause * 1.5, LONGEST_PAUSE)

    async def cancel(self, ref: Ref) -> Job:
        return await self._line.ask(wire.load_job, "POST", f"/jobs/{ref}/cancel")

    async def retry(self, ref: Ref) -> Job:
        return await self._line.ask(wire.load_job, "POST", f"/jobs/{ref}/retry")

    # -- crawls ---------------------------------------------------------------------------------

    async def crawl(self, new: NewCrawl) -> Job:
        return await self._line.ask(_job_of, "POST", "/crawls", json=wire.dump_new_crawl(new), again=True)

    async def crawl_report(self, ref: Ref) -> Crawl:
        return await self._line.ask(wire.load_crawl, "GET", f"/crawls/{ref}", again=True)

    async def crawls(self, page: int = 1, per_page: int = 50) -> Page[Crawl]:
        params = {"page": str(page), "per_page": str(per_page)}
        return await self._line.ask(wire.load_crawls, "GET", "/crawls", params=params, again=True)

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document:
        params = {"chunk_limit": "0"}
        return await self._line.ask(wire.load_document, "GET", f"/documents/{ref}", params=params, again=True)

    async def documents(self, wanted: DocumentFilter) -> Page[Document]:
        params = wire.dump_document_filter(wanted)
        return await self._line.ask(wire.load_documents, "GET", "/documents", params=params, again=True)

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        given = {"chunk_offset": offset or None, "chunk_limit": limit}
        params = {name: str(value) for name, value in given.items() if value is not None}
        return await self._line.ask(wire.load_chunks, "GET", f"/documents/{ref}", params=params, again=True)

    async def original(self, ref: Ref) -> Original:
        filename, size, pieces = await self._line.fetch(f"/documents/{ref}/file")
        return Original(filename, size, pieces)

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        moved = wire.dump_move(edit)
        if moved is not None:
            return await self._line.ask(wire.load_document, "PUT", f"/documents/{ref}/tags", json=moved, again=True)
        body = wire.dump_document_edit(edit)
        return await self._line.ask(wire.load_document, "PATCH", f"/documents/{ref}", json=body)

    async def remove(self, ref: Ref) -> Removed:
        return await self._line.ask(wire.load_removed, "DELETE", f"/documents/{ref}")

    async def clear(self) -> Removed:
        return await self._line.ask(wire.load_removed, "DELETE", "/documents", params={"confirm": "true"}, timeout=LONG)

    # -- collections ----------------------------------------------------------------------------

    async def collections(self, page: int = 1, per_page: int = 50) -> Page[Collection]:
        params = {"page": str(page), "per_page": str(per_page)}
        return await self._line.ask(wire.load_collections, "GET", "/collections", params=params, again=True)

    async def collection(self, ref: CollectionRef) -> Collection:
        return await self._line.ask(wire.load_collection, "GET", _at(ref), again=True)

    async def create_collection(self, new: NewCollection) -> Collection:
        body = wire.dump_new_collection(new)
        return await self._line.ask(wire.load_collection, "POST", "/collections", json=body, again=True)

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection:
        return await self._line.ask(wire.load_collection, "PATCH", _at(ref), json=wire.dump_collection_edit(edit))

    async def remove_collection(self, ref: CollectionRef) -> Removed:
        return await self._line.ask(wire.load_removed, "DELETE", _at(ref), timeout=LONG)

    # -- the engine itself ----------------------------------------------------------------------

    async def status(self) -> Status:
        return await self._line.ask(wire.load_status, "GET", "/status", again=True)

    async def verify(self) -> list[Finding]:
        return await self._line.ask(wire.load_findings, "POST", "/verify", timeout=LONG)

    async def reindex(self, model: str | None = None) -> None:
        body: Json | None = None if model is None else {"model": model}
        await self._line.ask(lambda _: None, "POST", "/reindex", json=body, timeout=LONG)

    async def backup(self) -> Original:
        filename, size, pieces = await self._line.fetch("/backup", timeout=LONG)
        return Original(filename, size, pieces)


def _job_of(data: wire.CrawlShape) -> Job:
    return wire.load_crawl(data).job


def _at(ref: CollectionRef) -> str:
    return f"/collections/{quote(str(wire.dump_collection_ref(ref)), safe='')}"


def connect(url: str, key: str | None = None) -> RemoteEngine:
    """The engine at an address; nothing is sent until the first verb."""
    return RemoteEngine(open_http(url, key))
