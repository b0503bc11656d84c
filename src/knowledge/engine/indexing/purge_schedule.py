"""Schedules purges of deleted chunks from the index: soon after a deletion, in short steps, at a low duty cycle.

See docs/decisions/0013-deleted-from-the-disk.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from knowledge.index.api import Index

REST_FACTOR = 20
"""Pause after a purge as a multiple of its duration, so that a large index is purged less often."""
MAX_PURGE_DELAY_SECONDS = 60.0
"""Longest time for which a steady stream of changes delays a purge."""


@dataclass(slots=True)
class PurgeStep:
    is_last: bool = False


class PurgeSchedule:
    def __init__(self) -> None:
        self.pause_seconds = 0.0
        """Pause before the next step; equal to the last step, so that a purge takes at most half of the time."""
        self._not_before = 0.0
        self._spent_seconds = 0.0
        self._waiting_since: float | None = None

    def is_due(self, index: Index) -> bool:
        return self.wait_seconds(index) == 0.0

    def wait_seconds(self, index: Index) -> float | None:
        """Return the time until the next purge may start; None if there is nothing to purge."""
        if not index.count_unpurged():
            self._waiting_since = None
            return None
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        return max(0.0, self._not_before - time.monotonic())

    def is_overdue(self, index: Index) -> bool:
        """Return whether a step must run although changes keep coming."""
        due = self.is_due(index)
        since = self._waiting_since
        return due and since is not None and time.monotonic() - since > MAX_PURGE_DELAY_SECONDS

    @contextmanager
    def measure_step(self) -> Iterator[PurgeStep]:
        started, step = time.monotonic(), PurgeStep()
        yield step
        now = time.monotonic()
        self.pause_seconds = now - started
        self._spent_seconds += now - started
        if step.is_last:
            self._not_before, self._spent_seconds = now + REST_FACTOR * self._spent_seconds, 0.0
