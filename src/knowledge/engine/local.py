"""The engine in this process; the async boundary: everything below is blocking code in worker threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from knowledge.blobs.incoming import IncomingFile
from knowledge.embed.embedder import Embedder
from knowledge.engine.api import Engine
from knowledge.engine.cluster.signals import SignalKind
from knowledge.engine.events.broadcaster import Signal
from knowledge.engine.events.watch import Watcher, open_watch
from knowledge.engine.ingest import accept
from knowledge.engine.ingest.originals import stream_original
from knowledge.engine.ingest.reread import REREAD_TYPES
from knowledge.engine.insight.recorder import FinishedSearch
from knowledge.engine.local_groups import LocalGroups
from knowledge.engine.permissions import check_verb, is_operator, summarize_findings
from knowledge.engine.proxy import CallerProxy
from knowledge.engine.runtime import Runtime
from knowledge.engine.search import pipeline as search_pipeline
from knowledge.error_codes import make_already_ended, raise_job_error
from knowledge.errors import DeadlineExceeded, IndexFailed, JobNotFound, KnowledgeError, NotNow
from knowledge.index.api import Index
from knowledge.model import (
    Caller,
    Chunk,
    Collection,
    CollectionEdit,
    CollectionRef,
    Document,
    DocumentEdit,
    DocumentFilter,
    EngineStatus,
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
    Query,
    Ref,
    RefusedRetry,
    RemovalResult,
    ReportProgress,
    RereadStatus,
    ResultPage,
    RetryResult,
    Scope,
    SearchAnswer,
)
from knowledge.model.crawls import Crawl, CrawledPage, NewCrawl, PageOutcome
from knowledge.model.events import Event
from knowledge.model.suggestions import Suggestion
from knowledge.store.accounts.accounts import StoredAccount
from knowledge.store.accounts.delete_account import delete_account_data
from knowledge.store.collections import read_only_error
from knowledge.store.documents import check_writable, require_revision
from knowledge.store.jobs.rows import ActiveJob
from knowledge.telemetry import metrics

CANCEL_SECONDS = 5.0
STOP_SECONDS = 0.5
"""Time that a worker has to stop a cancelled job by itself."""
DOCUMENT_JOBS = (JobKind.ADD, JobKind.UPDATE, JobKind.EMBED)
CLAIM_POLL_SECONDS = 0.005
"""Retry interval of a cancel that meets a job between its claim and its start."""
WATCH_VERB = "watch"
NOBODY = -2
"""An owner that owns nothing, for the scope of a review."""
OTHER_SERVER_POLL_SECONDS = 0.1
"""Interval at which a cancel looks whether another server has carried it out."""
INDEX_INCOMPLETE_NOTE = "The index is being rebuilt, so the results are incomplete; search again in a minute."


class LocalEngine(LocalGroups):
    """The engine restricted to one scope; `with_scope` returns it for another scope."""

    def __init__(
        self, parts: Runtime, scope: Scope = Scope(), *, for_operator: bool = True, caller: Caller | None = None
    ) -> None:
        """`caller` is authenticated again while it watches."""
        self._parts, self._scope, self._for_operator, self._caller = parts, scope, for_operator, caller
        self._run_in_thread = parts.threads.run

    def with_scope(self, scope: Scope, *, for_operator: bool = True) -> LocalEngine:
        if scope == self._scope and for_operator is self._for_operator:
            return self
        return LocalEngine(self._parts, scope, for_operator=for_operator)

    def as_caller(self, caller: Caller) -> Engine:
        return cast(Engine, CallerProxy(self, caller))

    async def admit(self, caller: Caller, verb: str) -> LocalEngine:
        """Authenticate the caller again, check its permission for the verb, and return the engine for its scope."""
        operator, parts, admit = is_operator(caller), self._parts, self._parts.accounts.admit_caller
        is_known = operator and caller.session is None
        cached = parts.scopes.get_cached_scope(caller.owner) if is_known else None  # saves a switch of threads
        current, scope = (
            (caller, cached) if cached else await self._run_in_thread(lambda: admit(caller, verb != WATCH_VERB))
        )
        check_verb(current, verb)
        if verb == WATCH_VERB:
            return LocalEngine(parts, scope, for_operator=operator, caller=current)
        return self.with_scope(scope, for_operator=operator)

    def _read_corpus(self, ref: int) -> LocalEngine:
        return self.with_scope(Scope(NOBODY, frozenset({ref})))

    def start(self) -> None:
        self._parts.start()

    @property
    def is_closed(self) -> bool:
        return self._parts.threads.closing

    def close(self) -> None:
        """Finish running requests, queue running jobs again, and close the data folder."""
        self._parts.threads.close()
        self._parts.close()

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> SearchAnswer:
        return await self._parts.threads.run_search(lambda: self._search(query), typing=query.typing)

    def _search(self, query: Query) -> SearchAnswer:
        began = time.perf_counter()
        try:
            answer = self._search_again_if_damaged(query)
        except Exception as error:
            metrics.SEARCHES[metrics.find_code(error)].inc()
            raise
        best = max((hit.score for hit in answer.hits), default=None)
        seconds = time.perf_counter() - began
        metrics.SEARCHES[metrics.NO_ERROR].inc()
        metrics.SEARCH_SECONDS[()].observe(seconds)
        self._parts.recorder.finished.put(FinishedSearch(self._scope.owner, query, best, 1000 * seconds))
        return answer

    def _search_again_if_damaged(self, query: Query) -> SearchAnswer:
        """Search, and once more in another index if this one turns out to be damaged."""
        index, embedder = self._find_index()
        if embedder is None and not query.fallback:
            self._parts.models.serving.raise_if_service_failed()
        try:
            return self._search_in(index, embedder, query)
        except IndexFailed as error:
            self._parts.indexer.report_damage(index, error.__cause__ or error)
            another, embedder = self._find_index()
            if another is index:
                raise
        return self._search_in(another, embedder, query)

    def _find_index(self) -> tuple[Index, Embedder | None]:
        """Return the index, and the embedder if the model of its vectors is loaded."""
        serving = self._parts.indexer.serving
        return serving.index, self._parts.models.find_embedder(serving.model)

    def _search_in(self, index: Index, embedder: Embedder | None, query: Query) -> SearchAnswer:
        # A negative sequence number means that the index is empty: it was lost, or nothing was ever added.
        incomplete = self._parts.indexer.seq < 0 and self._parts.changes.newest_seq() > 0
        answer = search_pipeline.search(
            query,
            search_pipeline.make_index_filter(
                query.filter, self._parts.documents, self._parts.collections, self._scope
            ),
            index=index,
            passages=self._parts.documents,
            embedder=embedder,
            reranker=self._parts.reranker,
        )
        return replace(answer, notes=(*answer.notes, INDEX_INCOMPLETE_NOTE)) if incomplete else answer

    async def suggest(self, text: str) -> list[Suggestion]:
        return await self._run_in_thread(lambda: self._parts.suggestions.find(text, self._scope))

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        accept.check_document(new)
        arrived = await self._receive(new) if isinstance(new, NewFile) else None
        with self._parts.backpressure.track_request():
            return await self._run_in_thread(lambda: self._parts.acceptor.accept(new, arrived, self._scope))

    async def _receive(self, new: NewFile) -> IncomingFile:
        """Write the content of a file to disk while it arrives."""
        incoming = await self._run_in_thread(self._parts.acceptor.open_incoming)
        try:
            async for piece in new.content.pieces:
                await self._run_in_thread(lambda piece=piece: incoming.write(piece))  # type: ignore[misc]
        except BaseException:
            incoming.discard()
            raise
        return incoming

    async def update_note(self, ref: Ref, text: str, expected: str | None = None) -> Document:
        accept.check_document(NewNote(text=text))
        note = await self.document(ref)
        check_writable(note, self._scope)
        accept.check_note(note)
        if expected is not None:
            require_revision(note, expected)
        job = await self._run_in_thread(lambda: self._parts.acceptor.accept_update(note, text, self._scope, expected))
        ended = await self.wait(job.id, self._parts.options.wait_seconds)
        if not ended.status.has_ended:
            raise DeadlineExceeded("The note is still being updated", job_id=ended.id)
        raise_job_error(ended)
        return await self.document(note.id)

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job:
        return self._parts.progress.add_progress(
            await self._run_in_thread(lambda: self._parts.jobs.find(ref, self._scope))
        )

    async def jobs(self, wanted: JobFilter) -> ResultPage[Job]:
        page = await self._run_in_thread(lambda: self._parts.jobs.page(wanted, self._scope))
        return ResultPage(
            tuple(map(self._parts.progress.add_progress, page.items)), page.total, page.page, page.per_page
        )

    async def wait(self, ref: Ref, timeout: float, report: ReportProgress | None = None) -> Job:
        job = await self.job(ref)
        deadline = time.monotonic() + timeout
        with self._parts.progress.watch(job.id) as watch:
            while True:
                job = await self.job(job.id)
                if report is not None and not job.status.has_ended:
                    report(job.step, job.done, job.total)
                remaining = deadline - time.monotonic()
                if job.status.has_ended or remaining <= 0 or not await watch.wait_for_change(remaining):
                    return job if job.status.has_ended else await self.job(job.id)

    async def cancel(self, ref: Ref) -> Job:
        job = await self.job(ref)
        if job.status.has_ended:
            raise make_already_ended(job)
        deadline = time.monotonic() + CANCEL_SECONDS
        pause, removal = CLAIM_POLL_SECONDS, self._parts.removal
        while not self._parts.progress.cancel(job.id) and time.monotonic() < deadline:
            if await self._run_in_thread(lambda: removal.cancel_job(job.id, self._scope)):
                return await self.job(job.id)
            if (await self.job(job.id)).status.has_ended:
                break
            if pause == CLAIM_POLL_SECONDS and await self._run_in_thread(lambda: removal.request_cancel(job.id)):
                pause = OTHER_SERVER_POLL_SECONDS
            await asyncio.sleep(pause)
        ended = await self._wait_for_cancellation(job)
        if ended.status in (JobStatus.COMPLETED, JobStatus.PARTIAL, JobStatus.FAILED):
            raise make_already_ended(ended)
        return ended

    async def _wait_for_cancellation(self, job: Job) -> Job:
        """Wait until the worker has stopped; a worker that cannot stop soon, as inside a model, loses the job."""
        if job.kind in DOCUMENT_JOBS:
            ended = await self.wait(job.id, STOP_SECONDS)
            if ended.status.has_ended:
                return ended
            cancel = self._parts.removal.cancel_job
            await self._run_in_thread(lambda: cancel(job.id, self._scope, even_if_running=True))
        return await self.wait(job.id, CANCEL_SECONDS)

    async def retry(self, ref: Ref) -> Job:
        return await self._run_in_thread(lambda: self._retry(ref))

    def _retry(self, ref: Ref) -> Job:
        job = self._parts.jobs.retry(ref, self._scope)
        self._parts.progress.restart(job.id)
        self._parts.signals.send(SignalKind.RETRIED, job.id)
        self._parts.wake_for(job.kind)
        return job

    async def retry_all(self, status: JobStatus = JobStatus.FAILED) -> RetryResult:
        jobs = await self._run_in_thread(lambda: self._parts.jobs.list_retryable(status, self._scope))
        refused: list[RefusedRetry] = []
        for job_id in jobs:
            try:
                await self.retry(job_id)
            except KnowledgeError as error:
                refused.append(RefusedRetry(job_id, error.code, str(error)))
        return RetryResult(len(jobs) - len(refused), tuple(refused))

    # -- events ---------------------------------------------------------------------------------

    async def watch(self, after: int | None = None) -> AsyncGenerator[Event, None]:
        return await open_watch(self._parts.broadcaster, self._parts.threads, self._judge, after)

    async def _judge(self) -> Watcher:
        if self._caller is None:
            return Watcher(self._scope, self._for_operator)
        current = await self.admit(self._caller, WATCH_VERB)
        return Watcher(current._scope, bool(current._caller and current._caller.may_administer))

    # -- crawls ---------------------------------------------------------------------------------

    async def crawl(self, new: NewCrawl) -> Job:
        return await self._run_in_thread(lambda: self._crawl(new))

    def _crawl(self, new: NewCrawl) -> Job:
        from knowledge.engine.crawl.accept import accept_crawl  # lazy: importing the HTTP client slows down the start

        job = accept_crawl(self._parts.crawls, self._parts.options.crawl.allowed, new, self._scope)
        self._parts.wake_for(job.kind)
        self._parts.broadcaster.notify(Signal.CHANGES)
        return job

    async def crawl_report(self, ref: Ref) -> Crawl:
        return self._with_progress(await self._run_in_thread(lambda: self._parts.crawls.find(ref, self._scope)))

    async def crawls(self, page: int = 1, per_page: int = 50) -> ResultPage[Crawl]:
        found = await self._run_in_thread(lambda: self._parts.crawls.page(page, per_page, self._scope))
        return replace(found, items=tuple(map(self._with_progress, found.items)))

    async def crawl_pages(
        self, ref: Ref, outcome: PageOutcome | None = None, page: int = 1, per_page: int = 50
    ) -> ResultPage[CrawledPage]:
        crawls, scope = self._parts.crawls, self._scope
        return await self._run_in_thread(lambda: crawls.page_of_addresses(ref, outcome, page, per_page, scope))

    def _with_progress(self, crawl: Crawl) -> Crawl:
        return replace(crawl, job=self._parts.progress.add_progress(crawl.job))

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document:
        return await self._run_in_thread(lambda: self._parts.documents.find(ref, self._scope))

    async def documents(self, wanted: DocumentFilter) -> ResultPage[Document]:
        return await self._run_in_thread(lambda: self._parts.documents.page(wanted, self._scope))

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        document = await self.document(ref)
        return await self._run_in_thread(lambda: self._parts.chunks.list_of_document(document.id, offset, limit))

    async def original(self, ref: Ref, start: int = 0, stop: int | None = None) -> Original:
        document = await self.document(ref)
        return await stream_original(self._parts.files, document, start, stop, self._run_in_thread)

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        accept.check_tags(edit.add_tags)
        return await self._run_in_thread(lambda: self._edit(ref, edit))

    def _edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        parts = self._parts
        before = parts.documents.find(ref, self._scope)
        document = parts.documents.edit(before.id, edit, self._scope, parts.options.quota)
        parts.indexer.wait_for_change(parts.changes.newest_seq(), parts.options.wait_seconds)
        if document.title != before.title:
            parts.acceptor.queue_embedding(document, self._scope)
        return document

    async def remove(self, ref: Ref) -> RemovalResult:
        return await self._run_in_thread(lambda: self._parts.removal.remove_document(ref, self._scope))

    async def clear(self) -> RemovalResult:
        parts = self._parts
        return await self._run_in_thread(lambda: parts.removal.free_files(*parts.documents.clear(self._scope)))

    # -- collections ----------------------------------------------------------------------------

    async def collections(self, page: int = 1, per_page: int = 50) -> ResultPage[Collection]:
        return await self._run_in_thread(lambda: self._parts.collections.page(self._scope, page, per_page))

    async def collection(self, ref: CollectionRef) -> Collection:
        return await self._run_in_thread(lambda: self._parts.collections.find(ref, self._scope))

    async def create_collection(self, new: NewCollection) -> Collection:
        created = await self._run_in_thread(lambda: self._parts.collections.create(new, self._scope))
        self._parts.broadcaster.notify(Signal.CHANGES)
        return created

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection:
        edited = await self._run_in_thread(lambda: self._parts.collections.edit(ref, edit, self._scope))
        self._parts.broadcaster.notify(Signal.CHANGES)
        return edited

    async def remove_collection(self, ref: CollectionRef) -> RemovalResult:
        parts, scope = self._parts, self._scope
        collection = await self.collection(ref)
        if collection.owner != scope.owner:
            raise read_only_error(ref)
        await self._cancel_jobs(await self._run_in_thread(lambda: parts.jobs.list_active_in(collection.id)))
        removed = await self._run_in_thread(
            lambda: parts.removal.free_files(*parts.documents.remove_collection(collection.id, scope))
        )
        parts.broadcaster.notify(Signal.CHANGES)
        return removed

    async def _remove_account(self, account: StoredAccount) -> RemovalResult:
        """Disable the account, so that no new job starts; then cancel its jobs and delete its data."""
        parts = self._parts
        await self._run_in_thread(lambda: parts.accounts.store.set_disabled(account.id, True))
        await self._cancel_jobs(await self._run_in_thread(lambda: parts.jobs.list_active_of(account.id)))
        return await self._run_in_thread(
            lambda: parts.removal.free_files(*delete_account_data(parts.database, account.id))
        )

    async def _cancel_jobs(self, jobs: Sequence[ActiveJob]) -> None:
        """Cancel jobs of any owner."""
        for job in jobs:
            with suppress(NotNow, JobNotFound):  # it ended meanwhile
                await self.with_scope(Scope(job.owner)).cancel(job.id)

    # -- the engine itself ----------------------------------------------------------------------

    async def status(self) -> EngineStatus:
        return await self._run_in_thread(lambda: self._parts.status.read(self._scope))

    async def check_ready(self) -> None:
        await self._run_in_thread(self._parts.check_ready)

    async def verify(self) -> list[Finding]:
        found = await self._run_in_thread(lambda: [*self._parts.maintenance.find_differences()])
        return found if self._for_operator else summarize_findings(found)

    async def reindex(self, model: str | None = None) -> None:
        if model is None:
            await self._run_in_thread(self._parts.maintenance.rebuild_index)
            return
        await self._run_in_thread(lambda: self._parts.models.switch_to(model))

    async def reread(self, start: bool = True) -> RereadStatus:
        return await self._run_in_thread(lambda: self._reread(start))

    def _reread(self, start: bool) -> RereadStatus:
        parts = self._parts
        queued = parts.rereads.queue_missing(REREAD_TYPES) if start else 0
        if queued:
            parts.workers.wake_all()
        return RereadStatus(queued, parts.rereads.count_waiting())

    async def backup(self) -> Original:
        archive = await self._run_in_thread(lambda: self._parts.maintenance.open_backup(lambda: self.is_closed))
        return Original(archive.filename, archive.size, archive.stream(self._run_in_thread))
