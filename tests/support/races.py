"""Runs two writes at the same time: the second begins when the first has done everything except its commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection, text

from knowledge.store.database import Work
from knowledge.store.postgres.postgres import PostgresDatabase

T = TypeVar("T")
LIMIT_SECONDS = 30.0
_COUNT_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


class PausingDatabase(PostgresDatabase):
    """A database whose first write waits before its commit until it is told to go on."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.paused, self.proceed = threading.Event(), threading.Event()

    def write(self, work: Work[T], *, is_idempotent: bool = False) -> T:
        def run_and_pause(connection: Connection) -> T:
            value = work(connection)
            self.paused.set()
            assert self.proceed.wait(LIMIT_SECONDS)
            return value

        return super().write(run_and_pause, is_idempotent=is_idempotent)


class Race:
    """The outcomes of two writes; an error is an outcome too."""

    def __init__(self, first: Any, second: Any, waited: bool) -> None:
        self.first, self.second, self.waited = first, second, waited


def run_race(url: str, first: Callable[[PostgresDatabase], Any], second: Callable[[PostgresDatabase], Any]) -> Race:
    """Run `first` up to its commit, then `second` until it ends or waits for a lock, then let both end."""
    one, two = PausingDatabase(url), PostgresDatabase(url)
    try:
        with ThreadPoolExecutor(2) as pool:
            running = pool.submit(first, one)
            assert one.paused.wait(LIMIT_SECONDS) or running.done()
            following = pool.submit(second, two)
            waited = _wait_until_blocked(two, following)
            one.proceed.set()
            return Race(_get_outcome(running), _get_outcome(following), waited)
    finally:
        one.proceed.set()
        one.close()
        two.close()


def _wait_until_blocked(database: PostgresDatabase, running: Future[Any]) -> bool:
    """Wait until a write has ended or waits for a lock; return whether it waits."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not running.done():
        with database.read() as connection:
            if connection.execute(_COUNT_WAITING).scalar_one():
                return True
        assert time.monotonic() < deadline, "the second write neither ended nor waited"
    return False


def _get_outcome(running: Future[Any]) -> Any:
    error = running.exception(LIMIT_SECONDS)
    return running.result() if error is None else error
