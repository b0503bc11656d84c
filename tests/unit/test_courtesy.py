"""Who goes first when many ask at once."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from knowledge.engine.jobs.backpressure import CROWD, Courtesy

LONG = 60.0


def crowd(courtesy: Courtesy, people: int) -> ExitStack:
    asking = ExitStack()
    for _ in range(people):
        asking.enter_context(courtesy.letting_in())
    return asking


def test_a_few_who_ask_hold_up_no_work() -> None:
    courtesy = Courtesy(LONG)
    with crowd(courtesy, CROWD - 1):
        courtesy.stand_aside()


def test_work_waits_until_the_crowd_is_in() -> None:
    courtesy, worked = Courtesy(LONG), threading.Event()

    def work() -> None:
        courtesy.stand_aside()
        worked.set()

    with crowd(courtesy, CROWD):
        worker = threading.Thread(target=work)
        worker.start()
        assert not worked.is_set()
    worker.join(LONG)
    assert worked.is_set()


def test_work_goes_on_when_the_crowd_never_ends() -> None:
    courtesy = Courtesy(patience=0.01)
    with crowd(courtesy, CROWD):
        courtesy.stand_aside()
