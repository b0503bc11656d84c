"""Backpressure: workers pause briefly while many requests are being accepted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

BACKPRESSURE_REQUESTS = 8
"""Concurrent requests from which on workers pause."""
# Limited, so that a worker still runs one job per pause under constant load.
YIELD_SECONDS = 0.25


class Backpressure:
    def __init__(self, yield_seconds: float = YIELD_SECONDS) -> None:
        self._yield_seconds = yield_seconds
        self._changed = threading.Condition()
        self._active_requests = 0

    @contextmanager
    def track_request(self) -> Iterator[None]:
        with self._changed:
            self._active_requests += 1
        try:
            yield
        finally:
            with self._changed:
                self._active_requests -= 1
                if self._active_requests < BACKPRESSURE_REQUESTS:
                    self._changed.notify_all()

    def yield_to_requests(self) -> None:
        """Wait until fewer than BACKPRESSURE_REQUESTS requests are active, at most `yield_seconds`."""
        if self._active_requests >= BACKPRESSURE_REQUESTS:
            with self._changed:
                self._changed.wait_for(lambda: self._active_requests < BACKPRESSURE_REQUESTS, self._yield_seconds)
