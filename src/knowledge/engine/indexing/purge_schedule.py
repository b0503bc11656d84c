"""When the index is purged of deleted passages: soon after a deletion, in short steps, for a small part of the time.

docs/decisions/0013-deleted-from-the-disk.md says why, and what it costs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from knowledge.index.api import Index

REST_FACTOR = 20
"""After a purge that took a second, the next begins so many seconds later: a large index is purged seldom."""
MAX_PURGE_DELAY_SECONDS = 60.0
"""Changes that never pause put a purge off for so long."""


@dataclass(slots=True)
class PurgeStep:
    is_last: bool = False


class PurgeSchedule:
    def __init__(self) -> None:
        self.pause_seconds = 0.0
        """As long as the last step took: others get at least half of the time."""
        self._not_before = 0.0
        self._spent_seconds = 0.0
        self._waiting_since: float | None = None

    def is_due(self, index: Index) -> bool:
        return self.wait_seconds(index) == 0.0

    def wait_seconds(self, index: Index) -> float | None:
        """How long until the next purge may begin; None where there is nothing to purge."""
        if not index.count_unpurged():
            self._waiting_since = None
            return None
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        return max(0.0, self._not_before - time.monotonic())

    def is_overdue(self, index: Index) -> bool:
        """Whether a step is taken though changes keep coming."""
        due = self.is_due(index)
        since = self._waiting_since
        return due and since is not None and time.monotonic() - since > MAX_PURGE_DELAY_SECONDS

    @contextmanager
    def measure_step(self) -> Iterator[PurgeStep]:
        began, step = time.monotonic(), PurgeStep()
        yield step
        now = time.monotonic()
        self.pause_seconds = now - began
        self._spent_seconds += now - began
        if step.is_last:
            self._not_before, self._spent_seconds = now + REST_FACTOR * self._spent_seconds, 0.0
