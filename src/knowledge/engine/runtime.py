"""The embedded engine's parts, opened in order and closed in reverse. `LocalEngine` is the view of them from above."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.embed.base import Embedder
from knowledge.engine.accounts import Accounts
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.crawl.service import CrawlOffice
from knowledge.engine.indexing.backfill import VectorKeeper
from knowledge.engine.indexing.follower import Indexer, OpenIndex
from knowledge.engine.indexing.models import Models, OpenModel
from knowledge.engine.ingest.pipeline import Ingest
from knowledge.engine.jobs.backpressure import Courtesy
from knowledge.engine.jobs.progress import Board
from knowledge.engine.jobs.workers import Workers
from knowledge.engine.passwords import Passwords
from knowledge.engine.search.rerank import open_reranker
from knowledge.errors import KnowledgeError, StorageFailed
from knowledge.extract.process.parsers import Parsers
from knowledge.index.api import Index
from knowledge.store import file_modes, migrate, traces
from knowledge.store.accounts.quotas import Quota
from knowledge.store.changes import ChangeLog
from knowledge.store.chunks import ChunkStore
from knowledge.store.collections import CollectionStore
from knowledge.store.corpora import CorpusStore
from knowledge.store.crawls.crawls import CrawlStore
from knowledge.store.crawls.site_pages import SitePageStore
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore
from knowledge.store.jobs import recovery as job_recovery
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.models import ModelStore
from knowledge.store.publish import Publisher
from knowledge.store.timestamps import stamp

log = logging.getLogger(__name__)

KEEP_FAILED = 24 * 3600 * 1_000_000
"""For so long the original of a failed job is kept for a retry, in microseconds."""
SWEEP_SECONDS = 3600.0
ALONE_DELAY_SECONDS = 2.0
"""So long after a start no job begins that must run alone: the server can be reached by then to cancel it."""
BACKUP_COPY = "backup-"
"""How the names of copies of the database begin that a backup makes in the data folder."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the engine is told from outside."""

    data: Path
    workers: int
    max_file_bytes: int
    wait_seconds: float
    ocr_languages: str
    embedding: str | None = None
    """The model that the settings name, if they name one."""
    crawl: CrawlOptions = field(default_factory=CrawlOptions)
    reranker: str = "default"
    rerank_ms: int = 300
    admins: tuple[str, ...] = ()
    registration: bool = True
    login_key_days: int = 90
    quota: Quota = field(default_factory=Quota)


class Parts:
    """Everything that lives as long as the engine does."""

    def __init__(
        self,
        options: Options,
        parsers: Parsers,
        open_model: OpenModel,
        open_index: OpenIndex,
    ) -> None:
        self.options, self.parsers = options, parsers
        file_modes.UMASK.enter()
        try:
            self._open(options, parsers, open_model, open_index)
        except BaseException:
            file_modes.UMASK.leave()
            raise

    def _open(
        self,
        options: Options,
        parsers: Parsers,
        open_model: OpenModel,
        open_index: OpenIndex,
    ) -> None:
        prepare_folder(options.data)
        self.began = time.monotonic()
        self.closing = False
        self.board = Board()
        self.courtesy = Courtesy()
        self.database = Database(options.data / "knowledge.db")
        self.files = FileStore(options.data / "files")
        self.documents = DocumentStore(self.database)
        self.chunks = ChunkStore(self.database)
        self.collections = CollectionStore(self.database)
        self.corpora = CorpusStore(self.database)
        self.accounts = Accounts(self.database, options.admins)
        self.passwords = Passwords()
        self.jobs = JobStore(self.database)
        self.crawls = CrawlStore(self.database)
        self.site_pages = SitePageStore(self.database)
        self.changes = ChangeLog(self.database)
        self.stored_models = ModelStore(self.database)
        self.models = Models(open_model, self.stored_models, options.embedding)
        self.publisher = Publisher(self.database)
        self.indexer = Indexer(
            options.data / "index",
            open_index,
            self.stored_models.active(),
            self.changes,
            self.chunks,
            self.documents,
            self._applied,
            self.chunks.drop_retired,
        )
        self.ingest = Ingest(
            self.database,
            self.files,
            self.chunks,
            self.documents,
            self.publisher,
            self.stored_models,
            parsers,
            self.models,
            options.ocr_languages,
        )
        self.workers = Workers(
            options.workers,
            self.jobs,
            self.ingest,
            self.board,
            self.indexer,
            self.files,
            options.quota,
            self.courtesy,
        )
        self.vectors = VectorKeeper(self.models, self.stored_models, self.chunks, self.indexer)
        self.crawler = CrawlOffice(self, options.crawl)
        self.reranker = open_reranker(options.reranker, self.models.serving.choice.int8, options.rerank_ms)
        self._closing = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_now_and_then, name="sweeper", daemon=True)

    def start(self) -> None:
        """Recover from whatever ended the last process, and begin to work."""
        self.parsers.start()
        recovery = job_recovery.recover(self.database)
        log_recovery(recovery)
        self.sweep(older_than=0.0)
        self.indexer.start()
        self.chunks.drop_retired(self.indexer.seq)
        self.vectors.start()
        self.workers.start(ALONE_DELAY_SECONDS if recovery.alone else None)
        self.crawler.start()
        self._sweeper.start()
        self.models.start()  # last, since nobody who asks in words waits for them

    def close(self) -> None:
        self._closing.set()
        self.crawler.close()
        self.workers.close()
        with suppress(KnowledgeError):
            job_recovery.release_unfinished(self.database)
        self.vectors.close()
        self.indexer.close()
        self.models.close()
        self.parsers.close()
        self.passwords.close()
        self.database.close()
        file_modes.UMASK.leave()

    def searching(self) -> tuple[Index, Embedder | None]:
        """The index, and the model if it is loaded and made the vectors in it; a wrong answer would be worse."""
        serving = self.indexer.serving
        return serving.index, self.models.maker(serving.model)

    def sweep(self, older_than: float) -> None:
        """Take away what no row names: staged passages of dead jobs, originals nobody needs."""
        self.chunks.sweep()
        self.jobs.forget_originals(stamp() - KEEP_FAILED)
        self.files.sweep(self.documents.names, older_than)
        traces.sweep(self.database)
        migrate.sweep_copies(self.database.path)

    def _applied(self, seq: int) -> None:
        """The index has seen everything up to here: jobs end, and the files that only they named go."""
        for job in self.jobs.finish(seq):
            self.board.end(job.id)
            if job.sha256 is not None:
                self.files.discard(job.sha256, self.documents.names)

    def _sweep_now_and_then(self) -> None:
        while not self._closing.wait(SWEEP_SECONDS):
            try:
                self.sweep(older_than=SWEEP_SECONDS)
            except Exception:
                log.exception("The sweep did not succeed")


def log_recovery(recovery: job_recovery.Recovery) -> None:
    """Tell the operator what the unclean end of the last process means for its jobs."""
    if recovery.interrupted:
        log.info("%d interrupted jobs are queued again", recovery.interrupted)
    for job in recovery.alone:
        log.warning("%s ended uncleanly before; it runs alone when the other jobs are done", job)
    for job in recovery.failed:
        log.error("%s is failed: the server ended uncleanly %d times while it was being done", job, job.unclean_starts)


def prepare_folder(data: Path) -> None:
    """The data folder, closed to other users, and without what a killed backup left in it."""
    try:
        file_modes.make_folder(data)
        tightened = file_modes.tighten(data)
    except OSError as error:
        raise StorageFailed(f"The data folder {data} cannot be used: {error.strerror or error}") from error
    if tightened:
        log.info("other users of this machine could read the data folder; %d paths are private now", tightened)
    for copy in data.glob(f"{BACKUP_COPY}*.db*"):
        copy.unlink(missing_ok=True)
