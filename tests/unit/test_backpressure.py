"""Jobs wait while many requests come at once, but not for longer than they may."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

from knowledge.engine.jobs.backpressure import BACKPRESSURE_REQUESTS, Backpressure

LONG_SECONDS = 60.0
"""The longest that a job may wait in a test where it must not wait for this."""
LIMIT_SECONDS = 20.0
"""Far less than that: a job that is not held up has ended by then, on a busy machine too."""
SHORT_SECONDS = 0.3


def enter_requests(courtesy: Backpressure, count: int) -> ExitStack:
    requests = ExitStack()
    for _ in range(count):
        requests.enter_context(courtesy.track_request())
    return requests


class Work:
    """A job on a thread of its own, which says when it begins to wait and when it goes on."""

    def __init__(self, courtesy: Backpressure) -> None:
        self._courtesy = courtesy
        self.started, self.ended = threading.Event(), threading.Event()
        self.seconds = 0.0
        threading.Thread(target=self._run, daemon=True).start()
        assert self.started.wait(LIMIT_SECONDS)

    def _run(self) -> None:
        self.started.set()
        began = time.monotonic()
        self._courtesy.yield_to_requests()
        self.seconds = time.monotonic() - began
        self.ended.set()


def test_a_few_requests_hold_up_no_work() -> None:
    courtesy = Backpressure(LONG_SECONDS)
    with enter_requests(courtesy, BACKPRESSURE_REQUESTS - 1):
        assert Work(courtesy).ended.wait(LIMIT_SECONDS)


def test_work_waits_until_the_crowd_is_in() -> None:
    courtesy = Backpressure(LONG_SECONDS)
    with enter_requests(courtesy, BACKPRESSURE_REQUESTS):
        work = Work(courtesy)
        assert not work.ended.wait(SHORT_SECONDS)
    assert work.ended.wait(LIMIT_SECONDS)


def test_work_goes_on_when_the_crowd_never_ends() -> None:
    courtesy = Backpressure(yield_seconds=SHORT_SECONDS)
    with enter_requests(courtesy, BACKPRESSURE_REQUESTS):
        work = Work(courtesy)
        assert work.ended.wait(LIMIT_SECONDS)
    assert work.seconds >= SHORT_SECONDS
