"""Checks, index rebuilds and backups, also as jobs that run in the server that was asked.

The index and the archives belong to one server, so no other server may claim such a job: its row is inserted as
claimed. A job whose server has ended is queued again like any other, and the next worker fails it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from knowledge.blobs.api import Blobs
from knowledge.engine.backup import BackupArchive
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.maintenance.archives import ArchiveFolder
from knowledge.engine.permissions import summarize_findings
from knowledge.engine.threads import EngineThreads
from knowledge.engine.verify import VERIFY_STEPS, ReportCheck, verify_all
from knowledge.errors import Cancelled, Internal, KnowledgeError, NotNow
from knowledge.model import Finding, Job, JobError, JobKind, JobStatus, Original, Ref, Scope, new_uid, now
from knowledge.model.jobs import JobPhase
from knowledge.store.chunks import ChunkStore
from knowledge.store.cluster.leases import LeaseStore
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.claim_queues import PRIORITY_BACKGROUND
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.jobs.rows import JobClaim, NewJob
from knowledge.store.pages.words import PageWordStore

log = logging.getLogger(__name__)

MAX_KEPT_FINDINGS = 200
"""Findings that the job of a check keeps as warnings."""


class MaintenanceService:
    def __init__(
        self,
        data: Path,
        database: Database,
        documents: DocumentStore,
        chunks: ChunkStore,
        files: Blobs,
        indexer: IndexFollower,
        words: PageWordStore,
        jobs: JobStore,
        progress: ProgressTracker,
        leases: LeaseStore | None,
    ) -> None:
        self._data, self._database, self._documents, self._chunks = data, database, documents, chunks
        self._files, self._indexer, self._words, self._jobs, self._progress = files, indexer, words, jobs, progress
        self._archives, self._leases = ArchiveFolder(data), leases
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._running: Job | None = None
        self._threads: set[threading.Thread] = set()

    # -- the work itself ------------------------------------------------------------------------

    def find_differences(self, report: ReportCheck = lambda done, part: None) -> Iterator[Finding]:  # noqa: ARG005
        """Compare database, index and originals."""
        return verify_all(
            self._database,
            self._documents,
            self._chunks,
            self._files,
            self._indexer,
            self._words,
            self._closing.is_set,
            report,
        )

    def rebuild_index(self) -> None:
        self._indexer.rebuild(self._indexer.model)

    def open_backup(self, stop: Callable[[], bool] | None = None) -> BackupArchive:
        return BackupArchive(
            self._data,
            self._database,
            self._files,
            self._documents,
            self._jobs,
            self._leases,
            stop=stop or self._closing.is_set,
        )

    # -- as jobs --------------------------------------------------------------------------------

    def start(self, kind: JobKind, scope: Scope, *, for_operator: bool) -> Job:
        """Start a job and return it; raises NotNow while another one runs on this server."""
        with self._lock:
            if self._running is not None:
                raise NotNow(
                    f"The server is busy with another {self._running.kind} (job {self._running.id})",
                    hint="Wait until it has ended, or cancel it.",
                    job_id=self._running.id,
                )
            uid = new_uid()
            name = f"knowledge-{now():%Y%m%d-%H%M%S}-{uid.hex[-4:]}.tar" if kind is JobKind.BACKUP else kind.value
            new = NewJob(uid, kind, scope.owner, None, name, {}, None, PRIORITY_BACKGROUND)
            claim = self._jobs.start(new)
            self._running = self._jobs.find(claim.id, scope)
            self._progress.begin(claim.id, claim.token)
            self._progress.announce(claim.id)
            thread = threading.Thread(target=self._run, args=(claim, for_operator), name="maintenance", daemon=True)
            self._threads.add(thread)
            thread.start()
            return self._running

    def find_archive(self, job: Job) -> Original:
        """Return the archive that a job has written; raises FileNotFound if it is not here any more."""
        return self._archives.open(job)

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            threads = [*self._threads]
        for thread in threads:
            thread.join()

    def _run(self, claim: JobClaim, for_operator: bool) -> None:
        try:
            self._execute(claim, for_operator)
        except Exception:  # the store failed: the job stays claimed until its lease expires or the server starts again
            log.exception("storing the outcome of job %s failed", claim.uid)
        finally:
            self._progress.end(claim.id)
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _execute(self, claim: JobClaim, for_operator: bool) -> None:
        try:
            try:
                warnings = self._work(claim, for_operator)
            finally:  # before the outcome is stored: whoever sees it may start the next job
                with self._lock:
                    self._running = None
        except Cancelled:
            if self._progress.is_cancelled(claim.id):
                self._jobs.mark_cancelled(claim)
            else:
                self._fail(claim, interrupted_error())
        except KnowledgeError as error:
            self._fail(claim, error)
        except Exception:
            log.exception("job %s failed with an internal error", claim.uid)
            self._fail(claim, Internal("The job failed with an internal error"))
        else:
            self._jobs.mark_ended(claim, JobStatus.COMPLETED, tuple(warnings), 0)

    def _fail(self, claim: JobClaim, error: KnowledgeError) -> None:
        self._jobs.mark_failed(claim, JobError(error.code, str(error), error.hint, error.details), keep_original=False)

    def _work(self, claim: JobClaim, for_operator: bool) -> list[str]:
        """Do the work of a job and return its warnings."""
        match claim.kind:
            case JobKind.VERIFY:
                return self._verify(claim, for_operator)
            case JobKind.REINDEX:
                self._report(claim, "Rebuilding the index", 0, 0)
                self.rebuild_index()
            case JobKind.BACKUP:
                self._report(claim, "Copying the database", 0, 0)
                archive = self.open_backup(lambda: self._must_stop(claim))
                self._archives.write(
                    archive,
                    claim.filename,
                    lambda done, total: self._report(claim, "Writing the archive", done, total, "MB"),
                )
        return []

    def _verify(self, claim: JobClaim, for_operator: bool) -> list[str]:
        found: list[Finding] = []
        checks = self.find_differences(
            lambda done, part: self._report(claim, f"Checking the {part}", done, VERIFY_STEPS)
        )
        for finding in checks:
            self._check_stop(claim)
            found.append(finding)
        shown = found if for_operator else summarize_findings(found)
        listed = [f"{finding.message}. {finding.hint}".strip() for finding in shown[:MAX_KEPT_FINDINGS]]
        more = len(shown) - len(listed)
        return [*listed, f"{more} more findings; 'knowledge verify' lists all."] if more else listed

    def _report(self, claim: JobClaim, step: str, done: int, total: int, unit: str | None = None) -> None:
        self._check_stop(claim)
        self._progress.report(claim.id, step, done, total, JobPhase.WHOLE, unit)

    def _check_stop(self, claim: JobClaim) -> None:
        if self._must_stop(claim):
            raise Cancelled("The job was cancelled", job_id=str(claim.uid))

    def _must_stop(self, claim: JobClaim) -> bool:
        return self._closing.is_set() or self._progress.is_cancelled(claim.id) or self._progress.is_lease_lost(claim.id)


def interrupted_error() -> NotNow:
    return NotNow("The server ended while this job was running", hint="Start it again.")


class LocalMaintenance:
    def __init__(
        self, threads: EngineThreads, service: MaintenanceService, jobs: JobStore, scope: Scope, *, for_operator: bool
    ) -> None:
        self._run, self._service, self._jobs = threads.run, service, jobs
        self._scope, self._for_operator = scope, for_operator

    async def verify(self) -> Job:
        return await self._start(JobKind.VERIFY)

    async def reindex(self) -> Job:
        return await self._start(JobKind.REINDEX)

    async def backup(self) -> Job:
        return await self._start(JobKind.BACKUP)

    async def archive(self, ref: Ref) -> Original:
        return await self._run(lambda: self._service.find_archive(self._jobs.find(ref, self._scope)))

    async def _start(self, kind: JobKind) -> Job:
        return await self._run(lambda: self._service.start(kind, self._scope, for_operator=self._for_operator))
