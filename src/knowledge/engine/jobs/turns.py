"""Which job a worker may claim: ordinary jobs run side by side, and one that must run alone with nothing beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from knowledge.store.jobs.rows import Claim

MAX_WAIT_SECONDS = 60.0
"""A job that must run alone lets all others go first, for so long; then no other is begun until it has run."""
POLL_SECONDS = 0.05


class Queue(Protocol):
    """The part of the job store that hands out jobs."""

    def claim(self, most_urgent_only: bool) -> Claim | None: ...

    def claim_alone(self) -> Claim | None: ...


class Turns:
    """A job is claimed only when it may begin at once: what is claimed when the server ends counts as interrupted."""

    def __init__(self, queue: Queue, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue, self._clock = queue, clock
        self._lock = threading.Lock()  # one claim after the other, or several workers would write for the same job
        self._running = 0
        self._alone = False
        self._waiting_since: float | None = None
        """Since when a job that must run alone may be waiting."""
        self._not_before = 0.0

    def expect_alone(self, delay_seconds: float = 0.0) -> None:
        """A job that must run alone is queued; it is not begun before the delay is over."""
        with self._lock:
            now = self._clock()
            self._waiting_since = now if self._waiting_since is None else self._waiting_since
            self._not_before = max(self._not_before, now + delay_seconds)

    def claim(self, most_urgent_only: bool) -> Claim | None:
        """The next job that may begin now; `end` must follow when it is over."""
        with self._lock:
            if self._alone:
                return None
            claim = None if self._is_overdue() else self._queue.claim(most_urgent_only)
            if claim is None and not most_urgent_only and self._may_run_alone():
                claim = self._queue.claim_alone()
                self._alone = claim is not None
                self._waiting_since = self._clock() if self._alone else None
            self._running += claim is not None
            return claim

    def end(self) -> bool:
        """A claimed job is over; True when workers that found nothing should look again."""
        with self._lock:
            was_alone, self._alone = self._alone, False
            self._running -= 1
            return was_alone or self._waiting_since is not None

    def seconds_to_wait(self) -> float | None:
        """How long a worker without a job may sleep; None until it is woken."""
        with self._lock:
            if self._waiting_since is None or self._running:
                return None
            return max(self._not_before - self._clock(), POLL_SECONDS)

    def _is_overdue(self) -> bool:
        since = self._waiting_since
        return since is not None and self._clock() >= max(since + MAX_WAIT_SECONDS, self._not_before)

    def _may_run_alone(self) -> bool:
        return self._waiting_since is not None and not self._running and self._clock() >= self._not_before
