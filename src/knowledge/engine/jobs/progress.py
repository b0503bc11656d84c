"""Progress, leases and cancellation of the jobs that run here, with wake-ups for callers that wait for a job.

They are kept in memory. If other servers use the database, `ClusterMember` renews the leases and stores the progress.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from knowledge.model import Job, JobStatus
from knowledge.model.jobs import JobPhase


@dataclass(frozen=True, slots=True)
class JobProgress:
    step: str = "Starting"
    done: int = 0
    total: int = 0
    unit: str | None = None
    progress: float = 0.0
    """How far the whole job is."""


class ReportStep(Protocol):
    """Receives the progress of a job: what is done of the current step, and which part of the whole it is."""

    def __call__(self, step: str, done: int, total: int, phase: JobPhase, unit: str | None = None) -> None: ...


MAX_REMEMBERED_JOBS = 10_000


@dataclass(slots=True)
class _JobLease:
    token: str
    valid_until: float
    """Time of the monotonic clock; it goes on while the process is stopped."""


class ProgressTracker:
    def __init__(self, lease_seconds: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_seconds, self._clock = lease_seconds, clock
        self._lock = threading.Lock()
        self._progress: dict[int, JobProgress] = {}
        self._reached: dict[int, float] = {}
        """How far each job was at most, also after another worker or attempt went on with it."""
        self._leases: dict[int, _JobLease] = {}
        self._unstored: set[int] = set()
        self._cancelled: set[int] = set()
        self._wakers: dict[int, set[Callable[[], None]]] = {}
        self.on_change: Callable[[int], None] = lambda _: None
        """Called with each job that changed; with 0 if any may have."""
        self.on_stored_change: list[Callable[[int], None]] = []
        """Called with the id of a job whose row has changed, to tell other servers."""

    def begin(self, job_id: int, token: str = "") -> None:
        with self._lock:
            self._progress[job_id] = JobProgress()
            self._leases[job_id] = _JobLease(token, self._clock() + self._lease_seconds)
        self.on_change(job_id)

    def report(self, job_id: int, step: str, done: int, total: int, phase: JobPhase, unit: str | None = None) -> None:
        with self._lock:
            if job_id in self._progress:
                reached = self._raise_reached(job_id, phase.compute_progress(done, total))
                self._progress[job_id] = JobProgress(step, done, total, unit, reached)
                self._unstored.add(job_id)
        self.notify_watchers(job_id)

    def _raise_reached(self, job_id: int, progress: float) -> float:
        reached = self._reached[job_id] = max(self._reached.pop(job_id, 0.0), progress)
        if len(self._reached) > MAX_REMEMBERED_JOBS:
            del self._reached[next(iter(self._reached))]
        return reached

    def restart(self, job_id: int) -> None:
        """Forget how far a job was, because it is retried from the beginning; not if it runs here already."""
        with self._lock:
            if job_id not in self._progress:
                self._reached.pop(job_id, None)
        self.notify_watchers(job_id)

    def end(self, job_id: int) -> None:
        with self._lock:
            self._forget(job_id)
            self._cancelled.discard(job_id)
        self.notify_watchers(job_id)
        self.announce(job_id)

    def announce(self, job_id: int) -> None:
        """Tell other servers that the row of a job has changed."""
        for callback in self.on_stored_change:
            callback(job_id)

    def _forget(self, job_id: int) -> None:
        self._progress.pop(job_id, None)
        self._leases.pop(job_id, None)
        self._unstored.discard(job_id)

    def suspend(self, job_id: int) -> bool:
        """Stop tracking a job that another worker continues; return False if it was cancelled."""
        with self._lock:
            if job_id in self._cancelled:
                return False
            self._forget(job_id)
            return True

    def cancel(self, job_id: int) -> bool:
        """Request cancellation of a running job; return False if it does not run in this process."""
        with self._lock:
            running = job_id in self._progress
            if running:
                self._cancelled.add(job_id)
        self.notify_watchers(job_id)
        return running

    def is_cancelled(self, job_id: int) -> bool:
        return job_id in self._cancelled

    # -- leases ---------------------------------------------------------------------------------

    def list_tokens(self) -> dict[str, int]:
        """Return the job of each claim that this process holds."""
        with self._lock:
            return {lease.token: job_id for job_id, lease in self._leases.items() if lease.token}

    def extend_leases(self, tokens: Iterable[str], renewed_at: float) -> None:
        """Note that the leases of these claims were renewed by a statement that was sent at `renewed_at`."""
        renewed = set(tokens)
        with self._lock:
            for lease in self._leases.values():
                if lease.token in renewed:
                    lease.valid_until = renewed_at + self._lease_seconds

    def release_lease(self, job_id: int) -> None:
        """Note that a job is published: it needs no lease, and its progress is kept until it is indexed."""
        with self._lock:
            if (lease := self._leases.get(job_id)) is not None:
                lease.token, lease.valid_until = "", math.inf

    def list_published(self) -> list[int]:
        """Return the jobs that wait for the index."""
        with self._lock:
            return [job_id for job_id, lease in self._leases.items() if not lease.token]

    def expire_lease(self, job_id: int) -> None:
        """Note that another server may claim or has claimed a job that runs here."""
        with self._lock:
            if (lease := self._leases.get(job_id)) is not None:
                lease.valid_until = -math.inf
        self.notify_watchers(job_id)

    def is_lease_lost(self, job_id: int) -> bool:
        """Return whether the lease of a job that runs here has expired, for example while the process was stopped."""
        lease = self._leases.get(job_id)
        return lease is not None and self._clock() > lease.valid_until

    def take_unstored(self) -> list[tuple[str, JobProgress]]:
        """Return the progress that was reported since the last call, with the token of each job."""
        with self._lock:
            changed, self._unstored = self._unstored, set()
            return [(self._leases[job_id].token, self._progress[job_id]) for job_id in changed]

    def list_watched(self) -> list[int]:
        """Return the jobs that callers wait for."""
        with self._lock:
            return list(self._wakers)

    # -- reading --------------------------------------------------------------------------------

    def get_reached(self, job_id: int) -> float:
        """Return how far a job was at most."""
        return self._reached.get(job_id, 0.0)

    def add_progress(self, job: Job) -> Job:
        """Return the stored job with its current progress."""
        progress, reached = self._progress.get(job.id), self._reached.get(job.id, 0.0)
        if job.status.has_ended:
            return job
        job = replace(job, progress=max(job.progress, reached))
        if progress is None or job.status is not JobStatus.PROCESSING:
            return job
        return replace(job, step=progress.step, done=progress.done, total=progress.total, unit=progress.unit)

    # -- waiting --------------------------------------------------------------------------------

    def notify_watchers(self, job_id: int) -> None:
        with self._lock:
            watchers = list(self._wakers.get(job_id, ()))
        for wake in watchers:
            wake()
        self.on_change(job_id)

    def notify_all_watchers(self) -> None:
        with self._lock:
            watchers = [wake for wakers in self._wakers.values() for wake in wakers]
        for wake in watchers:
            wake()
        self.on_change(0)

    def watch(self, job_id: int) -> JobWatcher:
        return JobWatcher(self, job_id)

    def _add_waker(self, job_id: int, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wakers.setdefault(job_id, set()).add(wake)

    def _remove_waker(self, job_id: int, wake: Callable[[], None]) -> None:
        with self._lock:
            waiting = self._wakers.get(job_id, set())
            waiting.discard(wake)
            if not waiting:
                self._wakers.pop(job_id, None)


class JobWatcher:
    """Waits for changes of one job; enter it before reading the job, so that no change is missed."""

    def __init__(self, tracker: ProgressTracker, job_id: int) -> None:
        self._tracker, self._job_id = tracker, job_id
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    def __enter__(self) -> JobWatcher:
        self._tracker._add_waker(self._job_id, self._wake)
        return self

    def __exit__(self, *_: object) -> None:
        self._tracker._remove_waker(self._job_id, self._wake)

    async def wait_for_change(self, timeout: float) -> bool:
        """Wait for the next change; return False after the timeout."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout)
        except TimeoutError:
            return False
        self._event.clear()
        return True
