"""The engine in this process. Async ends here: below this file everything is plain, blocking code in worker threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from knowledge import failpoints
from knowledge.embed.base import Embedder
from knowledge.engine import backup, verify
from knowledge.engine import status as engine_status
from knowledge.engine.ingest import accept
from knowledge.engine.local_accounts import LocalAccounts
from knowledge.engine.local_corpora import LocalCorpora
from knowledge.engine.permissions import Access
from knowledge.engine.runtime import Parts
from knowledge.engine.search import pipeline as search_pipeline
from knowledge.errors import (
    BY_CODE,
    DeadlineExceeded,
    EngineUnreachable,
    IndexFailed,
    Internal,
    JobNotFound,
    NotNow,
    StorageFailed,
)
from knowledge.index.api import Index, Within
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
    JobKind,
    JobStatus,
    NewCollection,
    NewDocument,
    NewFile,
    NewNote,
    Original,
    Page,
    Query,
    Ref,
    Removed,
    Report,
    Scope,
    Status,
)
from knowledge.model.crawls import Crawl, NewCrawl
from knowledge.store.collections import read_only
from knowledge.store.documents import check_writable
from knowledge.store.files import Incoming, pieces
from knowledge.store.jobs.rows import Started

T = TypeVar("T")

CANCEL_SECONDS = 5.0
CLAIMED_SECONDS = 0.005
"""A job that is neither queued nor running was claimed a moment ago, and is about to begin."""
NOT_ALL_YET = "The index is being built again, so not everything is found yet; ask again in a minute."


class LocalEngine(LocalAccounts, LocalCorpora):
    """One scope's view of the parts; `scoped` gives another view of the same parts."""

    def __init__(self, parts: Parts, scope: Scope = Scope(), threads: ThreadPoolExecutor | None = None) -> None:
        self._parts, self._scope = parts, scope
        self._threads = threads or ThreadPoolExecutor(64, thread_name_prefix="engine")

    def scoped(self, scope: Scope) -> LocalEngine:
        return LocalEngine(self._parts, scope, self._threads)

    def as_caller(self, caller: Caller) -> Access:
        return Access(self, caller)

    async def admit(self, caller: Caller) -> tuple[Caller, Scope]:
        accounts = self._parts.accounts
        known = accounts.admit_at_once(caller)
        return known if known is not None else await self._run(lambda: accounts.admit(caller))

    def start(self) -> None:
        self._parts.start()

    def close(self) -> None:
        """Finish what is being written, queue again what is running, and let go of the data folder."""
        self._parts.closing = True
        self._threads.shutdown(wait=True)
        self._parts.close()

    async def _run(self, work: Callable[[], T]) -> T:
        if self._parts.closing:
            raise EngineUnreachable("The engine is being closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> Answer:
        return await self._run(lambda: self._search(query))

    def _search(self, query: Query) -> Answer:
        index, embedder = self._parts.searching()
        if embedder is None and not query.fallback:
            self._parts.models.serving.refuse_if_the_service_failed()
        try:
            return self._search_in(index, embedder, query)
        except IndexFailed as error:
            self._parts.indexer.doubt(index, error.__cause__ or error)
            another, embedder = self._parts.searching()
            if another is index:
                raise
        return self._search_in(another, embedder, query)

    def _search_in(self, index: Index, embedder: Embedder | None, query: Query) -> Answer:
        incomplete = self._parts.indexer.without_an_index
        answer = search_pipeline.search(
            query,
            self._within(query),
            index=index,
            passages=self._parts.documents,
            embedder=embedder,
            reranker=self._parts.reranker,
        )
        return replace(answer, notes=(*answer.notes, NOT_ALL_YET)) if incomplete else answer

    def _within(self, query: Query) -> Within:
        """The scope and the filter as numbers; a name that is not there is an error, not an empty answer."""
        wanted, parts, scope = query.filter, self._parts, self._scope
        return Within(
            owner=scope.owner,
            shared_collections=tuple(sorted(scope.collections)),
            collections=parts.collections.ids(wanted.collections, scope) if wanted.collections else (),
            tags=wanted.tags,
            doc_types=wanted.doc_types,
            documents=parts.documents.ids(wanted.documents, scope) if wanted.documents else (),
            day_from=day(wanted.date_from),
            day_to=day(wanted.date_to),
        )

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        accept.check(new)
        arrived = await self._receive(new) if isinstance(new, NewFile) else None
        with self._parts.courtesy.letting_in():
            return await self._run(lambda: accept.accept(self._parts, new, arrived, self._scope))

    async def _receive(self, new: NewFile) -> Incoming:
        """The bytes, piece by piece, on disk."""
        incoming = await self._run(lambda: accept.incoming(self._parts))
        try:
            async for piece in new.content.pieces:
                await self._run(lambda piece=piece: incoming.write(piece))  # type: ignore[misc]
        except BaseException:
            incoming.discard()
            raise
        return incoming

    async def update_note(self, ref: Ref, text: str) -> Document:
        accept.check(NewNote(text=text))
        note = await self.document(ref)
        check_writable(note, self._scope)
        accept.check_note(note)
        job = await self._run(lambda: accept.accept_update(self._parts, note, text, self._scope))
        ended = await self.wait(job.id, self._parts.options.wait_seconds)
        if not ended.status.ended:
            raise DeadlineExceeded("The note is still being updated", job_id=ended.id)
        raise_failure(ended)
        return await self.document(note.id)

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job:
        return self._parts.board.lay_over(await self._run(lambda: self._parts.jobs.find(ref, self._scope)))

    async def jobs(self, wanted: JobFilter) -> Page[Job]:
        page = await self._run(lambda: self._parts.jobs.page(wanted, self._scope))
        return Page(tuple(map(self._parts.board.lay_over, page.items)), page.total, page.page, page.per_page)

    async def wait(self, ref: Ref, timeout: float, report: Report | None = None) -> Job:
        job = await self.job(ref)
        deadline = time.monotonic() + timeout
        with self._parts.board.watch(job.id) as watch:
            while True:
                job = await self.job(job.id)
                if report is not None and not job.status.ended:
                    report(job.step, job.done, job.total)
                remaining = deadline - time.monotonic()
                if job.status.ended or remaining <= 0 or not await watch.changed(remaining):
                    return job if job.status.ended else await self.job(job.id)

    async def cancel(self, ref: Ref) -> Job:
        job = await self.job(ref)
        if job.status.ended:
            raise already_ended(job)
        deadline = time.monotonic() + CANCEL_SECONDS
        while not self._parts.board.cancel(job.id) and time.monotonic() < deadline:
            if await self._run(lambda: self._cancel_queued(job)):
                return await self.job(job.id)
            if (await self.job(job.id)).status.ended:
                break
            await asyncio.sleep(CLAIMED_SECONDS)
        ended = await self.wait(job.id, CANCEL_SECONDS)
        if ended.status in (JobStatus.COMPLETED, JobStatus.PARTIAL, JobStatus.FAILED):
            raise already_ended(ended)
        return ended

    def _cancel_queued(self, job: Job) -> bool:
        kept = self._parts.jobs.kept(job.id, self._scope)
        cancelled = self._parts.jobs.cancel_queued(job.id)
        if cancelled:
            self._parts.board.tell(job.id)
            if kept is not None:
                self._parts.files.discard(kept, self._parts.documents.names)
        return cancelled

    async def retry(self, ref: Ref) -> Job:
        return await self._run(lambda: self._retry(ref))

    def _retry(self, ref: Ref) -> Job:
        job = self._parts.jobs.retry(ref, self._scope)
        (self._parts.crawler if job.kind is JobKind.CRAWL else self._parts.workers).wake()
        return job

    # -- crawls ---------------------------------------------------------------------------------

    async def crawl(self, new: NewCrawl) -> Job:
        return await self._run(lambda: self._crawl(new))

    def _crawl(self, new: NewCrawl) -> Job:
        from knowledge.engine.crawl import (
            accept as crawl_accept,  # it brings the HTTP client along, which a start does not need
        )

        return crawl_accept.start(self._parts, new, self._scope)

    async def crawl_report(self, ref: Ref) -> Crawl:
        return self._with_progress(await self._run(lambda: self._parts.crawls.find(ref, self._scope)))

    async def crawls(self, page: int = 1, per_page: int = 50) -> Page[Crawl]:
        found = await self._run(lambda: self._parts.crawls.page(page, per_page, self._scope))
        return replace(found, items=tuple(map(self._with_progress, found.items)))

    def _with_progress(self, crawl: Crawl) -> Crawl:
        return replace(crawl, job=self._parts.board.lay_over(crawl.job))

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document:
        return await self._run(lambda: self._parts.documents.find(ref, self._scope))

    async def documents(self, wanted: DocumentFilter) -> Page[Document]:
        return await self._run(lambda: self._parts.documents.page(wanted, self._scope))

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        document = await self.document(ref)
        return await self._run(lambda: self._parts.chunks.of_document(document.id, offset, limit))

    async def original(self, ref: Ref) -> Original:
        document = await self.document(ref)
        path = self._parts.files.path(document.sha256)
        if not await self._run(path.exists):
            raise StorageFailed(
                f"The original of document {document.id} is missing",
                hint="Run 'knowledge verify'; add the file again to mend it.",
                document_id=document.id,
            )
        return Original(document.filename or document.title, document.size_bytes, pieces(path))

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        accept.check_tags(edit.add_tags)
        return await self._run(lambda: self._edit(ref, edit))

    def _edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        parts = self._parts
        before = parts.documents.find(ref, self._scope)
        document = parts.documents.edit(before.id, edit, self._scope, parts.options.quota)
        parts.indexer.follow(parts.changes.newest(), parts.options.wait_seconds)
        if document.title != before.title:
            accept.queue_embedding(parts, document, self._scope)
        return document

    async def remove(self, ref: Ref) -> Removed:
        return await self._run(lambda: self._freed(*self._parts.documents.remove(ref, self._scope)))

    async def clear(self) -> Removed:
        return await self._run(lambda: self._freed(*self._parts.documents.clear(self._scope)))

    def _freed(self, removed: Removed, candidates: list[str]) -> Removed:
        """Take away the files that nothing names any more, and have the index follow."""
        failpoints.reached("remove.committed")
        parts = self._parts
        freed = sum(parts.files.discard(sha256, parts.documents.names) for sha256 in candidates)
        parts.indexer.wake()
        return Removed(removed.documents, removed.chunks, freed)

    # -- collections ----------------------------------------------------------------------------

    async def collections(self, page: int = 1, per_page: int = 50) -> Page[Collection]:
        return await self._run(lambda: self._parts.collections.page(self._scope, page, per_page))

    async def collection(self, ref: CollectionRef) -> Collection:
        return await self._run(lambda: self._parts.collections.find(ref, self._scope))

    async def create_collection(self, new: NewCollection) -> Collection:
        return await self._run(lambda: self._parts.collections.create(new, self._scope))

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection:
        return await self._run(lambda: self._parts.collections.edit(ref, edit, self._scope))

    async def remove_collection(self, ref: CollectionRef) -> Removed:
        parts, scope = self._parts, self._scope
        collection = await self.collection(ref)
        if collection.owner != scope.owner:
            raise read_only(ref)
        await self._stop(await self._run(lambda: parts.jobs.active_in(collection.id)))
        return await self._run(lambda: self._freed(*parts.documents.remove_collection(collection.id, scope)))

    async def _stop(self, jobs: Sequence[Started]) -> None:
        """Cancel jobs, whoever started them."""
        for job in jobs:
            with suppress(NotNow, JobNotFound):  # it ended by itself meanwhile
                await self.scoped(Scope(job.owner)).cancel(job.id)

    # -- the engine itself ----------------------------------------------------------------------

    async def status(self) -> Status:
        return await self._run(lambda: engine_status.status(self._parts, self._scope))

    async def verify(self) -> list[Finding]:
        return await self._run(lambda: list(self._verify()))

    def _verify(self) -> Iterator[Finding]:
        parts = self._parts
        return verify.verify(
            parts.database.path, parts.documents, parts.chunks, parts.files, parts.indexer, lambda: parts.closing
        )

    async def reindex(self, model: str | None = None) -> None:
        if model is None:
            await self._run(lambda: self._parts.indexer.rebuild(self._parts.indexer.model))
            return
        await self._run(lambda: self._parts.models.follow_with(model))

    async def backup(self) -> Original:
        archive = await self._run(lambda: backup.Archive(self._parts))

        async def read() -> AsyncIterator[bytes]:
            try:
                while piece := await self._run(archive.next_piece):
                    yield piece
            finally:
                await self._run(archive.close)

        return Original(archive.filename, archive.size, read())


def day(moment: datetime | None) -> int | None:
    """The UTC day, counted from 1970-01-01."""
    return None if moment is None else int(moment.astimezone(UTC).timestamp() // 86400)


def already_ended(job: Job) -> NotNow:
    return NotNow(f"Job {job.id} has already ended: it is {job.status.value}", status=job.status.value)


def raise_failure(job: Job) -> None:
    """A failed job as the error that ended it."""
    if job.error is not None:
        kind = BY_CODE.get(job.error.code, Internal)
        raise kind(job.error.message, hint=job.error.hint, **job.error.details)
    if job.status is JobStatus.CANCELLED:
        raise BY_CODE["cancelled"]("The job was cancelled", job_id=job.id)
