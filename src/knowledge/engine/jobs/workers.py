"""The threads that claim jobs and do them, and what becomes of a job that goes wrong."""

from __future__ import annotations

import logging
import threading
import time

from knowledge.engine.indexing.follower import Indexer
from knowledge.engine.indexing.models import NONE
from knowledge.engine.ingest import unpack
from knowledge.engine.ingest.pipeline import Ingest
from knowledge.engine.jobs.backpressure import Courtesy
from knowledge.engine.jobs.progress import Board
from knowledge.engine.jobs.turns import Turns
from knowledge.errors import (
    Cancelled,
    Duplicate,
    Internal,
    JobCrashed,
    KnowledgeError,
    ParserDied,
    Unreadable,
    UnsupportedFormat,
)
from knowledge.model import JobError, JobKind
from knowledge.store.accounts.quotas import Quota
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.jobs.rows import MAX_DEATHS, Claim

log = logging.getLogger(__name__)

GLANCE = 0.05
PUBLISHED = "published"
OUTSIDE_KILL_SECONDS = 0.5
"""So long after the death of its child a job that runs alone is failed: a kill of all our processes at once, which is
no fault of the job, has ended the server by then."""
RETRY_HINT = "The original is kept for a day: retry the job with 'knowledge jobs retry {id}'."


class Workers:
    def __init__(
        self,
        count: int,
        jobs: JobStore,
        ingest: Ingest,
        board: Board,
        indexer: Indexer,
        files: FileStore,
        quota: Quota,
        courtesy: Courtesy,
    ) -> None:
        self._quota, self._courtesy = quota, courtesy
        self._jobs, self._ingest, self._board, self._indexer, self._files = jobs, ingest, board, indexer, files
        self._documents: DocumentStore = ingest.documents
        self._news = threading.Condition()
        self._arrivals = 0
        self._stopping = threading.Event()
        self._turns = Turns(jobs)
        express = threading.Thread(target=self._work, args=(True,), name="worker-express", daemon=True)
        others = [
            threading.Thread(target=self._work, args=(False,), name=f"worker-{number}", daemon=True)
            for number in range(count)
        ]
        self._threads = [express, *others]

    def start(self, alone_delay_seconds: float | None = None) -> None:
        """Begin; a delay is given where jobs wait that must run alone."""
        if alone_delay_seconds is not None:
            self._turns.expect_alone(alone_delay_seconds)
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """A job has been queued. Two are woken, since one of them may be the one that takes nothing but notes."""
        with self._news:
            self._arrivals += 1
            self._news.notify(2)

    def wake_all(self) -> None:
        """Many jobs have been queued, or it is time to go."""
        with self._news:
            self._arrivals += 1
            self._news.notify_all()

    def close(self) -> None:
        """Stop soon; what is under way is queued again."""
        self._stopping.set()
        self.wake_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    # -- a worker's life ------------------------------------------------------------------------

    def _work(self, express: bool) -> None:
        if express:
            self._warm_up()
        while not self._stopping.is_set():
            self._courtesy.stand_aside()
            seen = self._arrivals
            try:
                claim = self._turns.claim(express)
            except KnowledgeError:
                log.exception("No job could be claimed")
                self._stopping.wait(1.0)
                continue
            if claim is None:
                self._wait_for_news(seen)
            else:
                self._do(claim)

    def _warm_up(self) -> None:
        """After the model, since its first vector is what a start is waited for."""
        model = self._ingest.models.serving
        while not self._stopping.is_set() and not model.settled(GLANCE):
            pass
        if not self._stopping.is_set() and (model.ready() is not None or model.choice.kind == NONE):
            try:
                self._ingest.warm_up()
            except Exception:  # the first document will say why
                log.exception("Nothing could be made ready before the first document")

    def _wait_for_news(self, seen: int) -> None:
        with self._news:
            changed = self._turns.seconds_to_wait()
            self._news.wait_for(lambda: self._arrivals != seen or self._stopping.is_set(), changed)

    def _do(self, claim: Claim) -> None:
        began = time.monotonic()
        self._board.begin(claim.id)
        try:
            with self._indexer.expecting():
                outcome = self._run(claim)
            # The file of one that was published is its document's.
            if outcome != PUBLISHED and claim.sha256 is not None:
                self._files.discard(claim.sha256, self._documents.names)
        except Exception:  # the store itself is in trouble: the job stays claimed and is queued again at the next start
            log.exception("job %s could not be ended", claim.uid)
            outcome = "stuck"
        finally:
            if self._turns.end():
                self.wake_all()
        log.info("job %s %s %s %.0f ms", claim.uid, claim.kind, outcome, (time.monotonic() - began) * 1000)

    def _run(self, claim: Claim) -> str:
        """Do one job; its end is written down here, but for success, which the index has the last word on."""
        try:
            if claim.kind is JobKind.UNPACK:
                return self._unpack(claim)
            published = self._ingest.run(claim, self._reporter(claim), lambda: self._must_stop(claim))
        except Cancelled:
            return self._stopped(claim)
        except Duplicate as error:
            return self._duplicate(claim, error)
        except (ParserDied, JobCrashed) as error:
            return self._child_died(claim, error)
        except KnowledgeError as error:
            return self._failed(claim, error)
        except Exception:
            log.exception("job %s failed through a fault of ours", claim.uid)
            return self._failed(claim, Internal("The job failed through an internal error"))
        if published.replaced_sha256 is not None:
            self._files.discard(published.replaced_sha256, self._documents.names)
        self._indexer.wake()
        return PUBLISHED

    def _unpack(self, claim: Claim) -> str:
        told = unpack.unpack(
            self._ingest.database,
            self._files,
            self._documents,
            self._ingest.parsers,
            claim,
            self._quota,
            lambda: self._must_stop(claim),
        )
        self._jobs.unpacked(claim, told)
        self._board.end(claim.id)
        self.wake_all()
        return "unpacked"

    def _must_stop(self, claim: Claim) -> bool:
        return self._stopping.is_set() or self._board.is_cancelled(claim.id)

    def _reporter(self, claim: Claim) -> _Reporter:
        return _Reporter(self._board, claim.id)

    # -- how a job may end ----------------------------------------------------------------------

    def _stopped(self, claim: Claim) -> str:
        if self._board.is_cancelled(claim.id):
            self._jobs.cancelled(claim)
            outcome = "cancelled"
        else:
            self._jobs.release(claim)
            outcome = "queued again"
        self._end(claim)
        return outcome

    def _end(self, claim: Claim) -> None:
        """Let the file go before anybody is told, so that what is said to have left nothing has left nothing."""
        if claim.sha256 is not None:
            self._files.discard(claim.sha256, self._documents.names)
        self._board.end(claim.id)

    def _duplicate(self, claim: Claim, error: Duplicate) -> str:
        twin = self._documents.get(int(str(error.details["document_id"])))
        self._jobs.duplicate(claim, twin.id, twin.uid, twin.chunk_count)
        self._board.end(claim.id)
        return "duplicate"

    def _child_died(self, claim: Claim, error: ParserDied | JobCrashed) -> str:
        if claim.runs_alone:
            return self._died_alone(claim, error)
        self._jobs.died(claim)
        if claim.deaths + 1 >= MAX_DEATHS:
            self._turns.expect_alone()
        self._board.end(claim.id)
        self.wake()
        return "queued again after its child process died"

    def _died_alone(self, claim: Claim, error: ParserDied | JobCrashed) -> str:
        if self._stopping.wait(OUTSIDE_KILL_SECONDS) or self._board.is_cancelled(claim.id):
            return self._stopped(claim)
        message, hint = f"{error}, with no other job beside it", RETRY_HINT.format(id=claim.id)
        return self._failed(claim, type(error)(message, hint=hint, **error.details))

    def _failed(self, claim: Claim, error: KnowledgeError) -> str:
        problem = JobError(error.code, str(error), error.hint, error.details)
        self._jobs.fail(claim, problem, keep_original=worth_another_try(error))
        self._end(claim)
        return f"failed: {error.code}"


def worth_another_try(error: KnowledgeError) -> bool:
    """Whether reading the same bytes again could end otherwise; only then is the original kept for a retry."""
    crashed = isinstance(error, ParserDied | JobCrashed)
    return crashed or not isinstance(error, Unreadable | UnsupportedFormat)


class _Reporter:
    def __init__(self, board: Board, job_id: int) -> None:
        self._board, self._job_id = board, job_id

    def __call__(self, step: str, done: int, total: int) -> None:
        self._board.report(self._job_id, step, done, total)
