"""Opens, starts and closes the parts of the local engine: stores, index, ingest, workers and crawler."""

from __future__ import annotations

import logging
import math
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge import failpoints
from knowledge.blobs.api import Blobs
from knowledge.blobs.s3.bucket_url import BucketUrl
from knowledge.engine.accounts import AccountService
from knowledge.engine.cluster.member import ClusterMember, MemberParts, ServerRole, log_recovery, read_server_id
from knowledge.engine.cluster.model_change import ModelChange
from knowledge.engine.cluster.originals import open_bucket, open_folder
from knowledge.engine.cluster.signals import ClusterSignals, SignalKind
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.crawl.service import CrawlService
from knowledge.engine.data_folder import open_database, prepare_data_folder
from knowledge.engine.events.broadcaster import EventBroadcaster, Signal
from knowledge.engine.indexing.backfill import VectorBackfill
from knowledge.engine.indexing.follower import IndexFollower, OpenIndex
from knowledge.engine.indexing.models import EmbeddingModels, OpenModel
from knowledge.engine.ingest.accept import Acceptor
from knowledge.engine.ingest.pipeline import IngestPipeline
from knowledge.engine.insight.local_insight import open_insight
from knowledge.engine.jobs.backpressure import Backpressure
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.jobs.workers import WorkerPool
from knowledge.engine.maintenance.schedule import BackupPlan, BackupSchedule
from knowledge.engine.maintenance.service import MaintenanceService
from knowledge.engine.maps.service import MapService
from knowledge.engine.oauth.service import OAuthService
from knowledge.engine.pages.service import PageService
from knowledge.engine.passwords import PasswordService
from knowledge.engine.removal import Removal
from knowledge.engine.search.rerank import open_reranker
from knowledge.engine.status import StatusReader
from knowledge.engine.threads import EngineThreads
from knowledge.errors import KnowledgeError, Starting
from knowledge.extract.process.parsers import Parsers
from knowledge.filesystem import file_modes
from knowledge.malloc import IdleTrimmer
from knowledge.model import JobKind
from knowledge.store import erasure
from knowledge.store.accounts.quotas import Quota
from knowledge.store.accounts.scopes import ScopeStore
from knowledge.store.backup_records import BackupRecordStore
from knowledge.store.changes import ChangeLog
from knowledge.store.chunks import ChunkStore
from knowledge.store.cluster.leases import LeaseStore
from knowledge.store.cluster.servers import ServerStore
from knowledge.store.collections import CollectionStore
from knowledge.store.corpora import CorpusStore
from knowledge.store.crawls.crawls import CrawlStore
from knowledge.store.crawls.site_pages import SitePageStore
from knowledge.store.documents import DocumentStore
from knowledge.store.events import EventLog
from knowledge.store.jobs import recovery as job_recovery
from knowledge.store.jobs.claim_queues import LEASE_SECONDS
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.job_leases import JobLeases
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.maps.passage_maps import MapStore
from knowledge.store.mcp_sessions import McpSessionStore
from knowledge.store.models import ModelStore
from knowledge.store.pages.cache import PageCache
from knowledge.store.pages.reread import RereadQueue
from knowledge.store.pages.words import PageWordStore
from knowledge.store.publish import Publisher
from knowledge.store.row_mapping import make_timestamp
from knowledge.store.suggestions import SuggestionStore
from knowledge.store.transfer.marks import require_not_moved

if TYPE_CHECKING:
    from knowledge.engine.crawl.scheduler import CrawlScheduler

log = logging.getLogger(__name__)

FAILED_ORIGINAL_KEEP_MICROSECONDS = 24 * 3600 * 1_000_000
"""How long the original of a failed job is kept for a retry."""
SWEEP_SECONDS = 3600.0
SWEEP_LEASE = "sweep"
# Quarantined jobs start this long after the server, so that an operator can cancel them first.
ALONE_DELAY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of the local engine."""

    data: Path
    workers: int
    max_file_bytes: int
    wait_seconds: float
    ocr_languages: str
    database_url: str | None = field(default=None, repr=False)
    """PostgreSQL; None is SQLite in the data folder."""
    originals: Path | None = None
    """The folder of originals; None is below the data folder."""
    bucket: BucketUrl | None = None
    """The bucket of the originals, instead of a folder."""
    originals_cache_bytes: int = 1000 << 20
    role: ServerRole = ServerRole.ALL
    address: str = ""
    """Where this server can be reached, as shown by the status."""
    lease_seconds: float = LEASE_SECONDS
    embedding: str | None = None
    """KNOWLEDGE_EMBEDDING, if it is set."""
    crawl: CrawlOptions = field(default_factory=CrawlOptions)
    reranker: str = "default"
    rerank_ms: int = 300
    admins: tuple[str, ...] = ()
    registration: bool = True
    login_key_days: int = 90
    quota: Quota = field(default_factory=Quota)
    page_cache_bytes: int = 200 << 20
    query_log: bool = False
    query_log_days: int = 30
    backup: BackupPlan | None = None


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
        self.database = open_database(data, self.options.database_url)
        require_not_moved(self.database)
        self.server_id = read_server_id(data) if self.is_shared else ""
        try:
            self.files = self._open_originals(data)
        except BaseException:
            self.database.close()
            raise
        self.page_cache = PageCache(data / "pages", self.options.page_cache_bytes)
        self.documents = DocumentStore(self.database)
        self.chunks = ChunkStore(self.database)
        self.collections = CollectionStore(self.database)
        self.corpora = CorpusStore(self.database)
        self.scopes = ScopeStore(self.database)
        self.jobs = JobStore(self.database, self.server_id or None, self.options.lease_seconds)
        self.crawls = CrawlStore(self.database)
        self.site_pages = SitePageStore(self.database)
        self.changes = ChangeLog(self.database)
        self.events = EventLog(self.database)
        self.suggestions = SuggestionStore(self.database)
        self.stored_models = ModelStore(self.database)
        self.mcp_sessions = McpSessionStore(self.database)
        self.publisher = Publisher(self.database)
        self.page_words = PageWordStore(self.database)
        self.rereads = RereadQueue(self.database)
        self.pages = PageService(
            self.parsers, self.files, self.page_cache, self.chunks, self.page_words, self.documents.is_file_referenced
        )
        self.files.on_discard = self.pages.forget
        self.servers = ServerStore(self.database, self.server_id)
        self.leases = LeaseStore(self.database, self.server_id)
        self.job_leases = JobLeases(self.database, self.server_id, self.options.lease_seconds)
        self.signals = ClusterSignals(self.database, self.options.database_url, self.server_id)

    def _open_originals(self, data: Path) -> Blobs:
        options = self.options
        if options.bucket is not None:
            return open_bucket(self.database, options.bucket, data, options.originals_cache_bytes)
        return open_folder(self.database, options.originals or data / "files", is_shared=self.is_shared)

    @property
    def is_shared(self) -> bool:
        """Whether other servers may use the same database."""
        return self.options.database_url is not None

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
            self._find_safe_seq if self.is_shared else None,
        )
        change = ModelChange(self.servers, self.leases, self.stored_models, self.signals, options.role)
        self.backfill = VectorBackfill(
            self.models, self.stored_models, self.chunks, self.indexer, change if self.is_shared else None
        )
        self.reranker = open_reranker(options.reranker, self.models.serving.choice.int8, options.rerank_ms)

    def _open_workers(self) -> None:
        options, queue = self.options, DocumentQueue(self.database)
        self.progress = ProgressTracker(options.lease_seconds if self.is_shared else math.inf)
        self.insight = open_insight(self.database, options.query_log, options.query_log_days, self._tell_agents)
        self.recorder, agents = self.insight.recorder, self.insight.agents
        self.broadcaster = EventBroadcaster(self.events, self.jobs, self.progress, agents, self._find_indexed)
        self.jobs.find_progress = self.progress.get_reached
        self.progress.on_change = lambda job_id: self.broadcaster.notify(Signal.JOB, job_id)
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
            self.rereads,
        )
        self.acceptor = Acceptor(
            self.files,
            self.documents,
            queue,
            self.parsers,
            options.quota,
            options.max_file_bytes,
            self._wake_for_new_job,
        )
        leases = self.job_leases if self.is_shared else None
        self.removal = Removal(self.documents, self.files, self.jobs, self.progress, self.indexer, leases, self.signals)
        self.crawler = CrawlService(self.jobs, self._open_crawler)
        self.member = self._open_member() if self.is_shared else None

    def _tell_agents(self) -> None:
        self.broadcaster.notify(Signal.AGENTS)
        self.signals.send(SignalKind.AGENTS)

    def _open_member(self) -> ClusterMember:
        parts = MemberParts(
            database=self.database,
            changes=self.changes,
            servers=self.servers,
            leases=self.job_leases,
            signals=self.signals,
            progress=self.progress,
            indexer=self.indexer,
            workers=self.workers,
            crawler=self.crawler,
            finish_indexed=self._finish_jobs_of_all,
            is_first_model_pending=self.backfill.is_first_model_pending,
            follow_models=self.backfill.follow,
            tell_events=partial(self.broadcaster.notify, Signal.CHANGES),
            tell_agents=partial(self.broadcaster.notify, Signal.AGENTS),
            sweep_pages=self._sweep_drawn_pages,
        )
        self.indexer.on_own_change = partial(self.signals.send, SignalKind.CHANGES)
        self.workers.on_own_job = partial(self.signals.send, SignalKind.QUEUED)
        self.progress.on_stored_change.append(partial(self.signals.send, SignalKind.JOB))
        return ClusterMember(parts, self.options.role, self.options.address)

    def _open_services(self) -> None:
        self.threads = EngineThreads()
        self.accounts = AccountService(self.database, self.scopes, self.options.admins)
        self.oauth = OAuthService(self.database, self.accounts)
        self.passwords = PasswordService()
        self.maps = MapService(
            MapStore(self.database),
            self.stored_models.get_active,
            self._find_languages,
            self.leases if self.is_shared else None,
        )
        self.backups = BackupSchedule(
            self.options.backup,
            lambda stop: self.maintenance.open_backup(stop),
            BackupRecordStore(self.database),
            self.leases,
        )
        self.status = StatusReader(
            self.options.data,
            self.database,
            self.documents,
            self.collections,
            self.jobs,
            self.changes,
            self.models,
            self.indexer,
            self.parsers,
            self.files,
            self.backups,
            self.servers if self.is_shared else None,
        )
        self.maintenance = MaintenanceService(
            self.options.data,
            self.database,
            self.documents,
            self.chunks,
            self.files,
            self.indexer,
            self.page_words,
            self.jobs,
            self.progress,
            self.leases if self.is_shared else None,
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
        role = self.options.role
        self.parsers.start()
        recovery = job_recovery.recover_jobs(self.database, self.server_id or None)
        log_recovery(recovery)
        self._sweep_drawn_pages()
        if self.member is not None:
            self.member.register()
        else:
            self.sweep(older_than=0.0)
        if role.has_index:
            self.indexer.start()
            if self.member is None:
                self.chunks.drop_retired(self.indexer.seq)
        self.backfill.start()
        if role.has_workers:
            self.workers.start(ALONE_DELAY_SECONDS if recovery.alone else None)
            self.crawler.start()
        if self.member is not None:
            self.member.start()
        self._sweeper.start()
        self._trimmer.start()
        self.broadcaster.start()
        self.recorder.start()
        self.backups.start()
        self.models.start()  # last, because search by words does not need them

    def close(self) -> None:
        self._closing.set()
        self.broadcaster.close()
        self._trimmer.close()
        self.recorder.close()
        self.crawler.close()
        self.backups.close()
        self.maintenance.close()
        self.workers.close()
        with suppress(KnowledgeError):
            job_recovery.release_unfinished(self.database, self.server_id or None)
        if self.member is not None:
            self.member.close()
        self.backfill.close()
        self._close_index()
        self.models.close()
        self.pages.close()
        self.maps.close()
        self.parsers.close()
        self.passwords.close()
        self.database.close()
        file_modes.UMASK.leave()

    def _close_index(self) -> None:
        if self.member is None:
            self.indexer.close()
            return
        try:
            self.indexer.close()
            self.member.leave()
        except KnowledgeError as error:  # the database is away: other servers see that this one is gone
            log.warning("the server ended without a word to the others: %s", error)

    def wake_for(self, kind: JobKind) -> None:
        """Wake those who run a job of this kind, here and on other servers."""
        if kind is JobKind.CRAWL:
            if self.options.role.has_workers:
                self.crawler.wake()
            self.signals.send(SignalKind.QUEUED, 1)
        else:
            self.workers.wake()

    def check_ready(self) -> None:
        """Raise Starting until the index has caught up with the change log."""
        if self.member is not None:
            ready = self.member.is_ready and self.member.is_connected
        else:
            ready = self.indexer.failure is None and (self.indexer.seq >= 0 or not self.changes.newest_seq())
        if not ready:
            raise Starting("The index of this server has not caught up with the database")

    def sweep(self, older_than: float) -> None:
        """Delete what is not needed: staged chunks of dead jobs, unreferenced originals, expired sessions, copies."""
        self.chunks.drop_stale()
        self.accounts.sessions.delete_expired()
        self.oauth.grants.delete_expired()
        self.jobs.forget_originals(make_timestamp() - FAILED_ORIGINAL_KEEP_MICROSECONDS)
        self.files.sweep_unreferenced(self.documents.is_file_referenced, older_than)
        self.events.trim()
        self.insight.sweep()
        erasure.sweep_traces(self.database)
        self.database.sweep_copies()

    def _find_languages(self) -> frozenset[str] | None:
        """Return the languages that the serving model reads, None if it reads all or is not loaded."""
        embedder = self.models.find_embedder(self.stored_models.get_active())
        return None if embedder is None else embedder.languages

    def _wake_for_new_job(self) -> None:
        self.workers.wake()
        self.broadcaster.notify(Signal.CHANGES)

    def _find_indexed(self) -> int | None:
        """Return the last change that searches find; None if the index cannot follow, so that events do not wait."""
        return None if self.indexer.failure is not None else self.indexer.seq

    def _finish_indexed_jobs(self, seq: int) -> None:
        """Complete the jobs whose changes all indexes have applied, and delete their originals if unreferenced."""
        if self.member is not None:
            self._finish_jobs(self.member.find_applied_by_all(seq))
        else:
            self._finish_jobs(seq)

    def _finish_jobs_of_all(self) -> None:
        if self.member is not None:
            self._finish_jobs(self.member.find_applied_by_all(self.indexer.seq))

    def _finish_jobs(self, seq: int | None) -> None:
        finished = self.jobs.finish_indexed(seq) if seq is not None else []
        if finished:
            failpoints.trigger("jobs.finished")
        for job in finished:
            self.progress.end(job.id)
            if job.sha256 is not None:
                self.files.discard(job.sha256, self.documents.is_file_referenced)
        self.broadcaster.notify(Signal.CHANGES)

    def _find_safe_seq(self, checkpoint: int) -> int:
        return checkpoint if self.member is None else self.member.find_durable_on_all(checkpoint)

    def _sweep_drawn_pages(self) -> None:
        self.page_cache.sweep(self.documents.is_file_referenced)
        self.files.forget_copies(self.documents.is_file_referenced)

    def _sweep_once(self) -> None:
        self._sweep_drawn_pages()  # each server has its own
        if not self.is_shared:
            self.sweep(older_than=SWEEP_SECONDS)
        elif self.leases.acquire(SWEEP_LEASE, SWEEP_SECONDS / 2) is not None:
            # Every step checks its rows when it deletes, so a server that was stopped meanwhile does no harm.
            self.sweep(older_than=SWEEP_SECONDS)
            if all(
                server.model_id == self._active_model_id() for server in self.servers.list_live() if server.has_index
            ):
                self.stored_models.drop_unused_vectors()

    def _active_model_id(self) -> int | None:
        active = self.stored_models.get_active()
        return active.id if active else None

    def _sweep_periodically(self) -> None:
        while not self._closing.wait(SWEEP_SECONDS):
            try:
                self._sweep_once()
            except Exception:
                log.exception("deleting unreferenced data failed; retrying in %.0f s", SWEEP_SECONDS)
