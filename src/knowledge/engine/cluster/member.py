"""A server as a member of a cluster: heartbeats, leases of jobs, and polling behind the signals of other servers.

See docs/explanation/scaling.md.
"""

from __future__ import annotations

import hashlib
import logging
import math
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from knowledge.engine.cluster.signals import ClusterSignals, SignalKind
from knowledge.engine.crawl.service import CrawlService
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.jobs.workers import WorkerPool
from knowledge.errors import KnowledgeError, StorageFailed
from knowledge.store.changes import ChangeLog
from knowledge.store.cluster.servers import LIVE_SECONDS, ServerState, ServerStore
from knowledge.store.database import Database
from knowledge.store.jobs import recovery as job_recovery
from knowledge.store.jobs.job_leases import JobLeases, StoredProgress
from knowledge.version import __version__

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
"""Interval of heartbeats, of stored progress and of polling."""
RENEWALS_PER_LEASE = 4
REQUEUES_PER_LEASE = 12
RECONNECTED_SHARE = 1 / 3
"""Share of a lease for which no job is queued again after the database was away, so that its server can renew it."""
SWEEP_SECONDS = 60.0
SERVER_ID_NAME = "server-id"


class ServerRole(StrEnum):
    """What a server does."""

    ALL = "all"
    NO_WORKERS = "no-workers"
    """Answers requests; other servers run the jobs."""
    WORKERS_ONLY = "workers-only"
    """Runs jobs; it has no index and answers no requests."""

    @property
    def has_workers(self) -> bool:
        return self is not ServerRole.NO_WORKERS

    @property
    def has_index(self) -> bool:
        return self is not ServerRole.WORKERS_ONLY


def read_server_id(data: Path) -> str:
    """Return the id of this server, which stays the same when it starts again on its data folder.

    It includes the host name, so that a copy of the folder on another machine is another server.
    """
    path = data / SERVER_ID_NAME
    try:
        if not path.exists():
            path.write_text(uuid.uuid4().hex, "ascii")
        saved = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageFailed(f"The file {path} cannot be used: {error}") from error
    return hashlib.sha256(f"{saved} {socket.gethostname()}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class MemberParts:
    """The parts of the engine that a member wakes and reads."""

    database: Database
    changes: ChangeLog
    servers: ServerStore
    leases: JobLeases
    signals: ClusterSignals
    progress: ProgressTracker
    indexer: IndexFollower
    workers: WorkerPool
    crawler: CrawlService
    finish_indexed: Callable[[], None]
    """Ends the jobs that all live servers have indexed."""
    is_first_model_pending: Callable[[], bool]
    """Tells whether new documents have vectors that the index does not have yet."""
    follow_models: Callable[[], None]
    """Loads, builds or activates the model that was chosen on any server."""
    tell_events: Callable[[], None]
    """Reads the events that any server has recorded."""
    tell_agents: Callable[[], None]
    """Reads the agents that another server has seen."""
    sweep_pages: Callable[[], None]
    """Deletes the drawn pages of documents that were removed on another server."""


class ClusterMember:
    def __init__(self, parts: MemberParts, role: ServerRole, address: str) -> None:
        self._parts, self.role, self._address = parts, role, address
        self._lease_seconds = parts.leases.lease_seconds
        self._is_counted = False
        """Whether jobs wait for the index of this server."""
        self.is_ready = False
        """Whether the index has caught up since it is counted, so that every completed document is found here."""
        self._seen_at = -math.inf
        self._connected_since: float | None = None
        self._renew_at = self._requeue_at = self._sweep_at = 0.0
        self._stopping = threading.Event()
        self._tick_now = threading.Event()
        self._heartbeat_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run_loop, name="cluster", daemon=True)
        parts.signals.subscribe(self._on_signal)

    def register(self) -> None:
        """Insert this server before its index catches up, so that the change log is kept for it."""
        self._record_heartbeat()

    def start(self) -> None:
        self._parts.signals.start()
        self._thread.start()

    def close(self) -> None:
        """Stop the threads; `leave` removes the server when its index is closed."""
        self._stopping.set()
        self._tick_now.set()
        if self._thread.is_alive():
            self._thread.join()
        self._parts.signals.close()

    @property
    def is_connected(self) -> bool:
        """Whether the other servers see this one."""
        return time.monotonic() < self._seen_at + LIVE_SECONDS

    def leave(self) -> None:
        self._parts.servers.remove()

    # -- the change log ---------------------------------------------------------------------------

    def find_applied_by_all(self, seq: int) -> int | None:
        """Record what the index of this server has applied, and return what all live servers have applied.

        None while the vectors of new documents are not in the index, so that no job is completed before they are found.
        """
        if self.role.has_index and self._parts.is_first_model_pending():
            return None
        # Two statements: of two servers that record at once, the one that reads last sees both.
        self._parts.servers.record_applied(seq, self._checkpoint())
        return self._parts.servers.find_applied_by_all()

    def find_durable_on_all(self, checkpoint: int) -> int:
        """Return up to which change no live server needs the change log."""
        self._parts.servers.record_applied(self._parts.indexer.seq, self._checkpoint())
        found = self._parts.servers.find_durable_on_all()
        return checkpoint if found is None else min(checkpoint, found)

    def _checkpoint(self) -> int:
        return self._parts.indexer.needed_seq

    # -- signals --------------------------------------------------------------------------------

    def _on_signal(self, kind: SignalKind, identity: int) -> None:
        parts = self._parts
        match kind:
            case SignalKind.CHANGES:
                parts.indexer.wake(is_remote=True)
                parts.tell_events()
            case SignalKind.QUEUED if self.role.has_workers:
                parts.workers.wake(is_remote=True)
                if identity:
                    self._tick_now.set()  # a crawl or a quarantined job
            case SignalKind.AGENTS:
                parts.tell_agents()
            case SignalKind.JOB:
                parts.progress.notify_watchers(identity)
            case SignalKind.RETRIED:
                parts.progress.restart(identity)
            case SignalKind.CANCEL | SignalKind.MODEL:
                self._tick_now.set()

    # -- the thread -----------------------------------------------------------------------------

    def _run_loop(self) -> None:
        while not self._stopping.is_set():
            self._tick_now.clear()
            try:
                self._tick()
                self._seen_at = time.monotonic()
                if self._connected_since is None:
                    self._connected_since = time.monotonic()
            except KnowledgeError as error:
                if self._connected_since is not None:
                    log.error("the database cannot be reached: %s", error)
                self._connected_since, self.is_ready = None, False
            except Exception:
                log.exception("a step of the cluster member failed")
            self._tick_now.wait(TICK_SECONDS)

    def _tick(self) -> None:
        parts, now = self._parts, time.monotonic()
        newest = parts.changes.newest_seq()
        self._judge_readiness(newest)
        self._record_heartbeat()
        if now >= self._renew_at:
            self._renew_leases()
            self._renew_at = now + self._lease_seconds / RENEWALS_PER_LEASE
        self._store_progress()
        self._cancel_jobs()
        self._end_finished_jobs()
        if now >= self._requeue_at:
            self._requeue_expired(now)
            self._requeue_at = now + self._lease_seconds / REQUEUES_PER_LEASE
        if now >= self._sweep_at:
            parts.servers.sweep_dead()
            parts.sweep_pages()
            self._sweep_at = now + SWEEP_SECONDS
        self._wake_workers()
        parts.finish_indexed()
        parts.follow_models()
        parts.tell_events()
        for job_id in parts.leases.list_ended(parts.progress.list_watched()):
            parts.progress.notify_watchers(job_id)
        if parts.indexer.seq < newest:
            parts.indexer.wake(is_remote=True)

    def _judge_readiness(self, newest: int) -> None:
        indexer = self._parts.indexer
        if not self.role.has_index:
            self.is_ready = self._connected_since is not None
            return
        caught_up = indexer.failure is None and indexer.seq >= newest
        # Counted first: from then on no job is completed that this index has not applied.
        self.is_ready = self._is_counted and (self.is_ready or caught_up) and indexer.failure is None
        self._is_counted = (self._is_counted or caught_up) and indexer.failure is None and indexer.seq >= 0

    def _record_heartbeat(self) -> None:
        indexer = self._parts.indexer
        built = indexer.built_model
        state = ServerState(
            address=self._address,
            version=__version__,
            role=self.role,
            has_index=self.role.has_index and indexer.failure is None,
            is_ready=self._is_counted,
            applied_seq=indexer.seq,
            checkpoint_seq=self._checkpoint(),
            model_id=indexer.model.id if indexer.model else None,
            built_model_id=built.id if built else None,
        )
        with self._heartbeat_lock:
            self._parts.servers.record_heartbeat(state)

    def _renew_leases(self) -> None:
        progress, leases = self._parts.progress, self._parts.leases
        claims, sent_at = progress.list_tokens(), time.monotonic()
        renewed = leases.renew(list(claims))
        progress.extend_leases(renewed, sent_at)
        missing = [token for token in claims if token not in renewed]
        claimed = leases.find_claimed(missing)  # published meanwhile
        for token in missing:
            if token not in claimed:
                log.warning("job %d was queued again, because its lease had expired", claims[token])
                progress.expire_lease(claims[token])

    def _store_progress(self) -> None:
        changed = self._parts.progress.take_unstored()
        stored = [
            StoredProgress(token, each.step, each.done, each.total, each.unit, each.progress)
            for token, each in changed
            if token
        ]
        self._parts.leases.write_progress(stored)
        claims = self._parts.progress.list_tokens()
        for each in stored:
            if each.token in claims:
                self._parts.signals.send(SignalKind.JOB, claims[each.token])

    def _cancel_jobs(self) -> None:
        for job_id in self._parts.leases.list_cancelled():
            self._parts.progress.cancel(job_id)

    def _end_finished_jobs(self) -> None:
        """Forget the progress of published jobs that another server has ended."""
        published = self._parts.progress.list_published()
        for job_id in self._parts.leases.list_ended(published):
            self._parts.progress.end(job_id)

    def _requeue_expired(self, now: float) -> None:
        since = self._connected_since
        if since is None or now < since + self._lease_seconds * RECONNECTED_SHARE:
            return
        recovery = job_recovery.requeue_expired(self._parts.database)
        if recovery is not None:
            log_recovery(recovery)
            self._parts.signals.send(SignalKind.QUEUED, 1)

    def _wake_workers(self) -> None:
        if not self.role.has_workers:
            return
        waiting = self._parts.leases.find_waiting()
        if waiting.alone:
            self._parts.workers.expect_alone_job()
        if waiting.documents:
            self._parts.workers.wake_all(is_remote=True)
        if waiting.crawls:
            self._parts.crawler.wake()


def log_recovery(recovery: job_recovery.Recovery) -> None:
    """Log which jobs were interrupted, quarantined or failed by the unclean end of a server."""
    if recovery.interrupted:
        log.info("%d interrupted jobs are queued again", recovery.interrupted)
    for job in recovery.alone:
        log.warning("%s crashed the server before; it runs alone when the other jobs are done", job)
    for job in recovery.failed:
        log.error("%s is failed: the server crashed %d times while it was running", job, job.unclean_starts)
