"""Opens, starts and closes the parts of the local engine: stores, index, ingest, workers and crawler."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.engine.accounts import AccountService
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.crawl.service import CrawlService
from knowledge.engine.indexing.backfill import VectorBackfill
from knowledge.engine.indexing.follower import IndexFollower, OpenIndex
from knowledge.engine.indexing.models import EmbeddingModels, OpenModel
from knowledge.engine.ingest.accept import Acceptor
from knowledge.engine.ingest.pipeline import IngestPipeline
from knowledge.engine.jobs.backpressure import Backpressure
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.jobs.workers import WorkerPool
from knowledge.engine.passwords import PasswordService
from knowledge.engine.removal import Removal
from knowledge.engine.search.rerank import open_reranker
from knowledge.engine.status import StatusReader
from knowledge.engine.threads import EngineThreads
from knowledge.errors import KnowledgeError, StorageFailed
from knowledge.extract.process.parsers import Parsers
from knowledge.filesystem import file_modes
from knowledge.malloc import IdleTrimmer
from knowledge.store import erasure
from knowledge.store.accounts.quotas import Quota
from knowledge.store.accounts.scopes import ScopeStore
from knowledge.store.changes import ChangeLog
from knowledge.store.chunks import ChunkStore
from knowledge.store.collections import CollectionStore
from knowledge.store.corpora import CorpusStore
from knowledge.store.crawls.crawls import CrawlStore
from knowledge.store.crawls.site_pages import SitePageStore
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore
from knowledge.store.jobs import recovery as job_recovery
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.mcp_sessions import McpSessionStore
from knowledge.store.models import ModelStore
from knowledge.store.publish import Publisher
from knowledge.store.row_mapping import make_timestamp
from knowledge.store.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from knowledge.engine.crawl.scheduler import CrawlScheduler

log = logging.getLogger(__name__)

FAILED_ORIGINAL_KEEP_MICROSECONDS = 24 * 3600 * 1_000_000
"""How long the original of a failed job is kept for a retry."""
SWEEP_SECONDS = 3600.0
# Quarantined jobs start this long after the server, so that an operator can cancel them first.
ALONE_DELAY_SECONDS = 2.0
BACKUP_COPY_PREFIX = "backup-"
"""File name prefix of the temporary database copies that a backup makes in the data folder."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of the local engine."""

    data: Path
    workers: int
    max_file_bytes: int
    wait_seconds: float
    ocr_languages: str
    embedding: str | None = None
    """KNOWLEDGE_EMBEDDING, if it is set."""
    crawl: CrawlOptions = field(default_factory=CrawlOptions)
    reranker: str = "default"
    rerank_ms: int = 300
    admins: tuple[str, ...] = ()
    registration: bool = True
    login_key_days: int = 90
    quota: Quota = field(default_factory=Quota)


class Runtime:
    """The parts of the local engine, with its lifetime."""

    def __init__(
        self,
        options: EngineOptions,
        parsers: Parsers,
        open_model: OpenModel,
        open_index: OpenIndex,
    ) -> None:
        self.options, self.parsers = options, parsers
        file_modes.UMASK.enter()
        try:
            prepare_data_folder(options.data)
            self._open_stores(options.data)
            self._open_index(open_model, open_index)
            self._open_workers()
            self._open_services()
        except BaseException:
            file_modes.UMASK.leave()
            raise

    def _open_stores(self, data: Path) -> None:
        self.database = SqliteDatabase(data / "knowledge.db")
        self.files = FileStore(data / "files")
        self.documents = DocumentStore(self.database)
        self.chunks = ChunkStore(self.database)
        self.collections = CollectionStore(self.database)
        self.corpora = CorpusStore(self.database)
        self.scopes = ScopeStore(self.database)
        self.jobs = JobStore(self.database)
        self.crawls = CrawlStore(self.database)
        self.site_pages = SitePageStore(self.database)
        self.changes = ChangeLog(self.database)
        self.stored_models = ModelStore(self.database)
        self.mcp_sessions = McpSessionStore(self.database)
        self.publisher = Publisher(self.database)

    def _open_index(self, open_model: OpenModel, open_index: OpenIndex) -> None:
        options = self.options
        self.models = EmbeddingModels(open_model, self.stored_models, options.embedding)
        self.indexer = IndexFollower(
            options.data / "index",
            open_index,
            self.stored_models.get_active(),
            self.changes,
            self.chunks,
            self.documents,
            self._finish_indexed_jobs,
            self.chunks.drop_retired,
        )
        self.backfill = VectorBackfill(self.models, self.stored_models, self.chunks, self.indexer)
        self.reranker = open_reranker(options.reranker, self.models.serving.choice.int8, options.rerank_ms)

    def _open_workers(self) -> None:
        options, queue = self.options, DocumentQueue(self.database)
        self.progress = ProgressTracker()
        self.backpressure = Backpressure()
        self.ingest = IngestPipeline(
            self.files,
            self.chunks,
            self.documents,
            self.publisher,
            self.stored_models,
            self.parsers,
            self.models,
            options.ocr_languages,
        )
        self.workers = WorkerPool(
            options.workers,
            self.jobs,
            queue,
            self.ingest,
            self.progress,
            self.indexer,
            self.files,
            options.quota,
            self.backpressure,
        )
        self.acceptor = Acceptor(
            self.files,
            self.documents,
            queue,
            self.parsers,
            options.quota,
            options.max_file_bytes,
            self.workers.wake,
        )
        self.removal = Removal(self.documents, self.files, self.jobs, self.progress, self.indexer)
        self.crawler = CrawlService(self.jobs, self._open_crawler)

    def _open_services(self) -> None:
        self.threads = EngineThreads()
        self.accounts = AccountService(self.database, self.scopes, self.options.admins)
        self.passwords = PasswordService()
        self.status = StatusReader(
            self.options.data,
            self.database,
            self.documents,
            self.collections,
            self.jobs,
            self.changes,
            self.models,
            self.indexer,
        )
        self._closing = threading.Event()
        self._trimmer = IdleTrimmer(lambda: self.indexer.seq)
        self._sweeper = threading.Thread(target=self._sweep_periodically, name="sweeper", daemon=True)

    def _open_crawler(self) -> CrawlScheduler:
        # Lazy: importing the HTTP client would slow down every start.
        from knowledge.engine.crawl.ingest_page import CrawlStores
        from knowledge.engine.crawl.scheduler import CrawlScheduler
        from knowledge.engine.crawl.site_reader import SiteReader

        stores = CrawlStores(self.jobs, self.documents, self.crawls, self.site_pages)
        reader = SiteReader(self.parsers, self.files)
        return CrawlScheduler(self.options.crawl, stores, self.progress, reader, self.acceptor, self.removal)

    def start(self) -> None:
        """Recover from the end of the last process, and start all threads."""
        self.parsers.start()
        recovery = job_recovery.recover_jobs(self.database)
        log_recovery(recovery)
        self.sweep(older_than=0.0)
        self.indexer.start()
        self.chunks.drop_retired(self.indexer.seq)
        self.backfill.start()
        self.workers.start(ALONE_DELAY_SECONDS if recovery.alone else None)
        self.crawler.start()
        self._sweeper.start()
        self._trimmer.start()
        self.models.start()  # last, because search by words does not need them

    def close(self) -> None:
        self._closing.set()
        self._trimmer.close()
        self.crawler.close()
        self.workers.close()
        with suppress(KnowledgeError):
            job_recovery.release_unfinished(self.database)
        self.backfill.close()
        self.indexer.close()
        self.models.close()
        self.parsers.close()
        self.passwords.close()
        self.database.close()
        file_modes.UMASK.leave()

    def sweep(self, older_than: float) -> None:
        """Delete data that nothing refers to: staged chunks of dead jobs, unreferenced originals, old copies."""
        self.chunks.drop_stale()
        self.jobs.forget_originals(make_timestamp() - FAILED_ORIGINAL_KEEP_MICROSECONDS)
        self.files.sweep_unreferenced(self.documents.is_file_referenced, older_than)
        erasure.sweep_traces(self.database)
        self.database.sweep_copies()

    def _finish_indexed_jobs(self, seq: int) -> None:
        """Complete the jobs whose changes the index has applied, and delete their originals if unreferenced."""
        for job in self.jobs.finish_indexed(seq):
            self.progress.end(job.id)
            if job.sha256 is not None:
                self.files.discard(job.sha256, self.documents.is_file_referenced)

    def _sweep_periodically(self) -> None:
        while not self._closing.wait(SWEEP_SECONDS):
            try:
                self.sweep(older_than=SWEEP_SECONDS)
            except Exception:
                log.exception("deleting unreferenced data failed; retrying in %.0f s", SWEEP_SECONDS)


def log_recovery(recovery: job_recovery.Recovery) -> None:
    """Log which jobs were interrupted, quarantined or failed by a crash of the last process."""
    if recovery.interrupted:
        log.info("%d interrupted jobs are queued again", recovery.interrupted)
    for job in recovery.alone:
        log.warning("%s crashed the server before; it runs alone when the other jobs are done", job)
    for job in recovery.failed:
        log.error("%s is failed: the server crashed %d times while it was running", job, job.unclean_starts)


def prepare_data_folder(data: Path) -> None:
    """Create the data folder, make it private, and delete database copies of killed backups."""
    try:
        file_modes.make_folder(data)
        tightened = file_modes.make_private(data)
    except OSError as error:
        raise StorageFailed(f"The data folder {data} cannot be used: {error.strerror or error}") from error
    if tightened:
        log.info("made %d paths of the data folder private that other users could read", tightened)
    for copy in data.glob(f"{BACKUP_COPY_PREFIX}*.db*"):
        copy.unlink(missing_ok=True)
