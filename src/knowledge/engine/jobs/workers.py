"""Worker threads that claim and run jobs, store their outcome, and quarantine jobs that crashed a process."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Protocol

from knowledge import failpoints
from knowledge.blobs.api import Blobs
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.indexing.models import NO_MODEL
from knowledge.engine.ingest import reread, unpack
from knowledge.engine.ingest.pipeline import Handover, IngestPipeline
from knowledge.engine.jobs.backpressure import Backpressure
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.maintenance.service import interrupted_error
from knowledge.errors import (
    Cancelled,
    DocumentNotFound,
    Duplicate,
    Internal,
    JobCrashed,
    KnowledgeError,
    OriginalsUnavailable,
    ParserDied,
    Unreadable,
    UnsupportedFormat,
)
from knowledge.model import JobError, JobKind, JobStatus
from knowledge.model.jobs import MAINTENANCE_KINDS, JobPhase
from knowledge.store.accounts.quotas import Quota
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.jobs.rows import MAX_DEATHS, JobClaim
from knowledge.store.pages.reread import SPLIT_AGAIN, RereadQueue
from knowledge.telemetry import metrics

log = logging.getLogger(__name__)

MODEL_POLL_SECONDS = 0.05
PUBLISHED, PUBLISHED_BY_WORDS = "published", "published by words"
# Wait before a quarantined job is failed for the death of its child: if an operator or the system kills all processes
# at once, the server is gone by then and the job is not blamed. See docs/decisions/0011-jobs-that-end-the-server.md.
OUTSIDE_KILL_SECONDS = 0.5
RETRY_HINT = "The original is kept for a day: retry the job with 'knowledge jobs retry {id}'."

MAX_WAIT_SECONDS = 60.0
"""Longest time for which other jobs go before a quarantined job."""
POLL_SECONDS = 0.05
MAX_BACKOFF_SECONDS = 30.0
"""Longest wait of a worker before it tries again to read originals."""
MAX_READING_SECONDS = 60.0
"""Longest time for which documents to be read go before documents to be embedded."""


class WorkerPool:
    def __init__(
        self,
        count: int,
        jobs: JobStore,
        queue: DocumentQueue,
        ingest: IngestPipeline,
        progress: ProgressTracker,
        indexer: IndexFollower,
        files: Blobs,
        quota: Quota,
        backpressure: Backpressure,
        rereads: RereadQueue,
    ) -> None:
        self._rereads = rereads
        self._quota, self._backpressure, self._queue = quota, backpressure, queue
        self._jobs, self._ingest, self._progress, self._indexer, self._files = jobs, ingest, progress, indexer, files
        self._documents: DocumentStore = ingest.documents
        self._queue_changed = threading.Condition()
        self._arrivals = 0
        self.on_own_job: Callable[[], None] | None = None
        """Called for jobs that this server has queued, to tell others."""
        self._stopping = threading.Event()
        self._failed_reads = 0
        """Originals that could not be read, without a success in between."""
        self._claims = ClaimScheduler(jobs)
        express = threading.Thread(target=self._run_worker, args=(True,), name="worker-express", daemon=True)
        others = [
            threading.Thread(target=self._run_worker, args=(False,), name=f"worker-{number}", daemon=True)
            for number in range(count)
        ]
        self._threads = [express, *others]

    def start(self, alone_delay_seconds: float | None = None) -> None:
        """Start the threads; the delay is set if quarantined jobs are queued, and postpones them."""
        if alone_delay_seconds is not None:
            self._claims.expect_alone_job(alone_delay_seconds)
        for thread in self._threads:
            thread.start()

    def expect_alone_job(self) -> None:
        """Note that a quarantined job is queued, by whichever server."""
        self._claims.expect_alone_job()
        self.wake_all(is_remote=True)

    def wake(self, *, is_remote: bool = False) -> None:
        """Wake two workers for a new job, because one of them may be the express worker, which takes only notes."""
        with self._queue_changed:
            self._arrivals += 1
            self._queue_changed.notify(2)
        if not is_remote and self.on_own_job is not None:
            self.on_own_job()

    def wake_all(self, *, is_remote: bool = False) -> None:
        """Wake all workers, for many new jobs or to stop."""
        with self._queue_changed:
            self._arrivals += 1
            self._queue_changed.notify_all()
        if not is_remote and self.on_own_job is not None:
            self.on_own_job()

    def close(self) -> None:
        """Stop the workers; running jobs are queued again."""
        self._stopping.set()
        self.wake_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    # -- worker loop ----------------------------------------------------------------------------

    def _run_worker(self, express: bool) -> None:
        if express:
            self._warm_up()
        while not self._stopping.is_set():
            self._backpressure.yield_to_requests()
            seen = self._arrivals
            try:
                claim = self._claims.claim(express)
            except KnowledgeError:
                log.exception("claiming a job failed")
                self._stopping.wait(1.0)
                continue
            if claim is None:
                self._wait_for_job(seen)
            else:
                self._run_claim(claim)

    def _warm_up(self) -> None:
        """Warm up the ingest pipeline after the model is loaded, which is needed first."""
        model = self._ingest.models.serving
        while not self._stopping.is_set() and not model.wait_until_settled(MODEL_POLL_SECONDS):
            pass
        if not self._stopping.is_set() and (model.embedder is not None or model.choice.kind == NO_MODEL):
            try:
                self._ingest.warm_up()
            except Exception:  # not fatal: the first document is slower, or fails with its own error
                log.exception("warming up the ingest pipeline failed")

    def _wait_for_job(self, seen: int) -> None:
        with self._queue_changed:
            timeout = self._claims.seconds_to_wait()
            self._queue_changed.wait_for(lambda: self._arrivals != seen or self._stopping.is_set(), timeout)

    def _run_claim(self, claim: JobClaim) -> None:
        started = time.monotonic()
        self._progress.begin(claim.id, claim.token)
        if claim.cancel_requested:
            self._progress.cancel(claim.id)
        try:
            with self._indexer.expect_change():
                outcome = self._execute_claim(claim)
            published = outcome in (PUBLISHED, PUBLISHED_BY_WORDS)  # a published document owns its original
            if not published and claim.sha256 is not None:
                self._files.discard(claim.sha256, self._documents.is_file_referenced)
        except Exception:  # the store failed: the job stays claimed until its lease expires or the server starts again
            log.exception("storing the outcome of job %s failed", claim.uid)
            self._progress.end(claim.id)
            outcome = "stuck"
        finally:
            if self._claims.end_job():
                self.wake_all()
        seconds = time.monotonic() - started
        metrics.JOBS[claim.kind.value, metrics.label_outcome(outcome)].inc()
        metrics.JOB_SECONDS[claim.kind.value].observe(seconds)
        log.info("job %s %s %s %.0f ms", claim.uid, claim.kind, outcome, seconds * 1000)

    def _execute_claim(self, claim: JobClaim) -> str:
        """Run one job and store its failure; success is stored later, when the index has applied the change."""
        try:
            if claim.kind in MAINTENANCE_KINDS:  # its server has ended; no other one can go on with it
                raise interrupted_error()
            if claim.kind is JobKind.UNPACK:
                return self._unpack_archive(claim)
            if claim.kind is JobKind.REREAD and not claim.payload.get(SPLIT_AGAIN):
                return self._reread_document(claim)
            published = self._ingest.run(
                claim, self._make_reporter(claim), lambda: self._must_stop(claim), self._make_handover(claim)
            )
        except Cancelled:
            return self._end_stopped(claim)
        except Duplicate as error:
            return self._end_duplicate(claim, error)
        except (ParserDied, JobCrashed) as error:
            return self._requeue_after_crash(claim, error)
        except OriginalsUnavailable as error:
            return self._requeue_until_back(claim, error)
        except KnowledgeError as error:
            if error.details.get("is_commit_unknown"):  # the lease expires, and recovery sees what was committed
                raise
            return self._end_failed(claim, error)
        except Exception:
            log.exception("job %s failed with an internal error", claim.uid)
            return self._end_failed(claim, Internal("The job failed with an internal error"))
        self._failed_reads = 0
        if published is None:
            self.wake()
            return PUBLISHED_BY_WORDS
        self._progress.release_lease(claim.id)
        if published.replaced_sha256 is not None:
            self._files.discard(published.replaced_sha256, self._documents.is_file_referenced)
        self._indexer.wake()
        return PUBLISHED

    def _unpack_archive(self, claim: JobClaim) -> str:
        warnings = unpack.unpack_archive(
            self._queue,
            self._files,
            self._documents,
            self._ingest.parsers,
            claim,
            self._quota,
            lambda: self._must_stop(claim),
        )
        self._jobs.mark_unpacked(claim, warnings)
        self._progress.end(claim.id)
        self.wake_all()
        return "unpacked"

    def _reread_document(self, claim: JobClaim) -> str:
        ingest, report = self._ingest, self._make_reporter(claim)
        try:
            reread.reread_document(
                self._rereads,
                self._files,
                ingest.parsers,
                claim,
                ingest.ocr_languages,
                lambda step, done, total: report(step, done, total, JobPhase.WHOLE, "pages"),
                lambda: self._must_stop(claim),
            )
        except DocumentNotFound:  # removed while the job was waiting or running
            self._jobs.mark_cancelled(claim)
        else:
            self._jobs.mark_ended(claim, JobStatus.COMPLETED, (), 0)
        self._progress.end(claim.id)
        return "read again"

    def _must_stop(self, claim: JobClaim) -> bool:
        if self._stopping.is_set() or self._progress.is_cancelled(claim.id):
            return True
        return self._progress.is_lease_lost(claim.id)

    def _make_handover(self, claim: JobClaim) -> Handover:
        def release(priority: int, is_running: bool) -> bool:
            if self._jobs.is_next(priority, is_running=is_running):
                return False
            # Before the claim is released: from then on another worker tracks the job.
            if not self._progress.suspend(claim.id):
                raise Cancelled("The job was cancelled", job_id=str(claim.uid))
            return True

        return Handover(release, lambda: self._progress.begin(claim.id, claim.token), self._indexer.wake)

    def _make_reporter(self, claim: JobClaim) -> _JobReporter:
        return _JobReporter(self._progress, claim.id)

    # -- storing the outcome --------------------------------------------------------------------

    def _end_stopped(self, claim: JobClaim) -> str:
        if self._progress.is_cancelled(claim.id):
            self._jobs.mark_cancelled(claim)
            outcome = "cancelled"
        else:
            self._jobs.requeue(claim)
            outcome = "queued again"
        self._discard_file_and_end(claim)
        return outcome

    def _discard_file_and_end(self, claim: JobClaim) -> None:
        """Delete the original before waiting callers are woken, so that it is gone when they see the job ended."""
        failpoints.trigger("add.dropped")
        self._indexer.wake()  # the document may have been published by words
        if claim.sha256 is not None:
            self._files.discard(claim.sha256, self._documents.is_file_referenced)
        self._progress.end(claim.id)

    def _end_duplicate(self, claim: JobClaim, error: Duplicate) -> str:
        twin = self._documents.get(int(str(error.details["document_id"])))
        self._jobs.mark_duplicate(claim, twin.id, twin.uid, twin.chunk_count)
        failpoints.trigger("add.duplicate")
        self._indexer.wake()
        self._progress.end(claim.id)
        return "duplicate"

    def _requeue_until_back(self, claim: JobClaim, error: OriginalsUnavailable) -> str:
        """Queue a job again because the bucket of originals does not answer, and wait with exponential backoff."""
        if self._progress.is_cancelled(claim.id):
            return self._end_stopped(claim)
        self._jobs.requeue(claim)
        self._progress.end(claim.id)
        self._failed_reads += 1
        seconds = min(MAX_BACKOFF_SECONDS, 2.0 ** min(self._failed_reads, 10)) * random.uniform(0.5, 1.0)
        log.warning("job %s waits for its original, next try in %.0f s: %s", claim.uid, seconds, error)
        self._stopping.wait(seconds)
        self.wake()
        return "queued again until its original can be read"

    def _requeue_after_crash(self, claim: JobClaim, error: ParserDied | JobCrashed) -> str:
        if self._progress.is_cancelled(claim.id):
            return self._end_stopped(claim)
        if claim.runs_alone:
            return self._fail_after_crash_alone(claim, error)
        self._jobs.requeue_after_crash(claim)
        if claim.deaths + 1 >= MAX_DEATHS:
            self._claims.expect_alone_job()
        self._progress.end(claim.id)
        self.wake()
        return "queued again after its child process died"

    def _fail_after_crash_alone(self, claim: JobClaim, error: ParserDied | JobCrashed) -> str:
        if self._stopping.wait(OUTSIDE_KILL_SECONDS) or self._progress.is_cancelled(claim.id):
            return self._end_stopped(claim)
        message, hint = f"{error}, while no other job was running", RETRY_HINT.format(id=claim.id)
        return self._end_failed(claim, type(error)(message, hint=hint, **error.details))

    def _end_failed(self, claim: JobClaim, error: KnowledgeError) -> str:
        problem = JobError(error.code, str(error), error.hint, error.details)
        self._jobs.mark_failed(claim, problem, keep_original=is_retryable(error))
        self._discard_file_and_end(claim)
        metrics.JOB_ERRORS[claim.kind.value, error.code].inc()
        return f"failed: {error.code}"


def is_retryable(error: KnowledgeError) -> bool:
    """Return whether a retry with the same bytes could succeed; only then the original is kept."""
    crashed = isinstance(error, ParserDied | JobCrashed)
    return crashed or not isinstance(error, Unreadable | UnsupportedFormat)


class _JobReporter:
    def __init__(self, tracker: ProgressTracker, job_id: int) -> None:
        self._tracker, self._job_id = tracker, job_id

    def __call__(self, step: str, done: int, total: int, phase: JobPhase, unit: str | None = None) -> None:
        self._tracker.report(self._job_id, step, done, total, phase, unit)


class JobQueue(Protocol):
    """The part of the job store that claims jobs."""

    def claim(self, most_urgent_only: bool) -> JobClaim | None: ...

    def claim_without_vectors(self) -> JobClaim | None: ...

    def claim_alone(self) -> JobClaim | None: ...


class ClaimScheduler:
    """Decides which job may be claimed; a quarantined job runs alone, after the others.

    A job is claimed only when it can start at once, because a claim that outlives the process counts as a crash.
    """

    def __init__(self, queue: JobQueue, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue, self._clock = queue, clock
        self._lock = threading.Lock()  # serializes claims, or several workers would write for the same job
        self._running = 0
        self._alone = False
        self._waiting_since: float | None = None
        """Time since which a quarantined job may be queued."""
        self._not_before = 0.0
        self._reading_since: float | None = None
        self._embed_next = True

    def expect_alone_job(self, delay_seconds: float = 0.0) -> None:
        """Note that a quarantined job is queued; it does not start before the delay is over."""
        with self._lock:
            now = self._clock()
            self._waiting_since = now if self._waiting_since is None else self._waiting_since
            self._not_before = max(self._not_before, now + delay_seconds)

    def claim(self, most_urgent_only: bool) -> JobClaim | None:
        """Claim the next job that may start now; `end_job` must be called when it is over."""
        with self._lock:
            if self._alone:
                return None
            claim = None if self._is_overdue() else self._claim_ordinary(most_urgent_only)
            if claim is None and not most_urgent_only and self._may_run_alone():
                claim = self._queue.claim_alone()
                self._alone = claim is not None
                self._waiting_since = self._clock() if self._alone else None
            self._running += claim is not None
            return claim

    def _claim_ordinary(self, most_urgent_only: bool) -> JobClaim | None:
        if not most_urgent_only and self._must_embed():
            self._embed_next = False
            claim = self._queue.claim_without_vectors()
            if claim is not None:
                return claim
        claim = self._queue.claim(most_urgent_only)
        if not most_urgent_only:
            self._note_reading(claim)
        return claim

    def _must_embed(self) -> bool:
        """Return whether documents have been read for so long that every second job is one that waits for vectors."""
        since = self._reading_since
        return self._embed_next and since is not None and self._clock() >= since + MAX_READING_SECONDS

    def _note_reading(self, claim: JobClaim | None) -> None:
        self._embed_next = True
        if claim is None or claim.document_id is not None:
            self._reading_since = None
        elif self._reading_since is None:
            self._reading_since = self._clock()

    def end_job(self) -> bool:
        """Note that a claimed job is over; return True if idle workers should try to claim again."""
        with self._lock:
            was_alone, self._alone = self._alone, False
            self._running -= 1
            return was_alone or self._waiting_since is not None

    def seconds_to_wait(self) -> float | None:
        """Return how long an idle worker may sleep; None means until it is woken."""
        with self._lock:
            if self._waiting_since is None or self._running:
                return None
            return max(self._not_before - self._clock(), POLL_SECONDS)

    def _is_overdue(self) -> bool:
        since = self._waiting_since
        return since is not None and self._clock() >= max(since + MAX_WAIT_SECONDS, self._not_before)

    def _may_run_alone(self) -> bool:
        return self._waiting_since is not None and not self._running and self._clock() >= self._not_before
