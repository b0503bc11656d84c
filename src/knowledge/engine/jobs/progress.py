"""Progress and cancellation of running jobs, kept in memory, with wake-ups for callers that wait for a job."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from knowledge.model import Job, JobStatus


@dataclass(frozen=True, slots=True)
class JobProgress:
    step: str = "Starting"
    done: int = 0
    total: int = 0


class ProgressTracker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: dict[int, JobProgress] = {}
        self._cancelled: set[int] = set()
        self._wakers: dict[int, set[Callable[[], None]]] = {}

    def begin(self, job_id: int) -> None:
        with self._lock:
            self._progress[job_id] = JobProgress()

    def report(self, job_id: int, step: str, done: int, total: int) -> None:
        with self._lock:
            if job_id in self._progress:
                self._progress[job_id] = JobProgress(step, done, total)
        self.notify_watchers(job_id)

    def end(self, job_id: int) -> None:
        with self._lock:
            self._progress.pop(job_id, None)
            self._cancelled.discard(job_id)
        self.notify_watchers(job_id)

    def suspend(self, job_id: int) -> bool:
        """Stop tracking a job that another worker continues; return False if it was cancelled."""
        with self._lock:
            if job_id in self._cancelled:
                return False
            self._progress.pop(job_id, None)
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

    def add_progress(self, job: Job) -> Job:
        """Return the stored job with its current progress."""
        progress = self._progress.get(job.id)
        if progress is None or job.status is not JobStatus.PROCESSING:
            return job
        return replace(job, step=progress.step, done=progress.done, total=progress.total)

    # -- waiting --------------------------------------------------------------------------------

    def notify_watchers(self, job_id: int) -> None:
        with self._lock:
            watchers = list(self._wakers.get(job_id, ()))
        for wake in watchers:
            wake()

    def notify_all_watchers(self) -> None:
        with self._lock:
            watchers = [wake for wakers in self._wakers.values() for wake in wakers]
        for wake in watchers:
            wake()

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
