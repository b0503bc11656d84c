"""Backpressure: workers pause while many requests are active, for a limited time."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

from knowledge.engine.jobs.backpressure import BACKPRESSURE_REQUESTS, Backpressure

LONG_SECONDS = 60.0
"""A pause that a test never waits for."""
LIMIT_SECONDS = 20.0
"""Far below LONG_SECONDS, and enough for a worker that does not pause on a busy machine."""
SHORT_SECONDS = 0.3


def enter_requests(backpressure: Backpressure, count: int) -> ExitStack:
    requests = ExitStack()
    for _ in range(count):
        requests.enter_context(backpressure.track_request())
    return requests


class Work:
    """A worker thread that sets events when it starts to yield and when it goes on."""

    def __init__(self, backpressure: Backpressure) -> None:
        self._backpressure = backpressure
        self.started, self.ended = threading.Event(), threading.Event()
        self.seconds = 0.0
        threading.Thread(target=self._run, daemon=True).start()
        assert self.started.wait(LIMIT_SECONDS)

    def _run(self) -> None:
        self.started.set()
        started_at = time.monotonic()
        self._backpressure.yield_to_requests()
        self.seconds = time.monotonic() - started_at
        self.ended.set()


def test_a_few_requests_do_not_pause_workers() -> None:
    backpressure = Backpressure(LONG_SECONDS)
    with enter_requests(backpressure, BACKPRESSURE_REQUESTS - 1):
        assert Work(backpressure).ended.wait(LIMIT_SECONDS)


def test_a_worker_pauses_until_fewer_requests_are_active() -> None:
    backpressure = Backpressure(LONG_SECONDS)
    with enter_requests(backpressure, BACKPRESSURE_REQUESTS):
        work = Work(backpressure)
        assert not work.ended.wait(SHORT_SECONDS)
    assert work.ended.wait(LIMIT_SECONDS)


def test_a_worker_goes_on_after_its_pause_while_requests_stay_active() -> None:
    backpressure = Backpressure(yield_seconds=SHORT_SECONDS)
    with enter_requests(backpressure, BACKPRESSURE_REQUESTS):
        work = Work(backpressure)
        assert work.ended.wait(LIMIT_SECONDS)
    assert work.seconds >= SHORT_SECONDS
