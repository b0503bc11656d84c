"""Thread pool for the blocking work of the engine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from knowledge.errors import EngineUnreachable, Overloaded

T = TypeVar("T")

MAX_THREADS = 64
DROPPED_SEARCH_RETRY_SECONDS = 1


class EngineThreads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="engine")
        self.closing = False
        self._cores = os.cpu_count() or 1
        self._searches = {True: 0, False: 0}
        """Running and waiting searches, by whether the question is being typed."""
        self._lock = threading.Lock()

    async def run_search(self, work: Callable[[], T], *, typing: bool) -> T:
        """Run a search; one while typing is dropped if other searches occupy all cores.

        A search is counted until its thread has ended, also if its caller is gone.
        """
        if self.closing:
            raise EngineUnreachable("The engine is shutting down")
        self._count_search(typing)
        try:
            future = self._pool.submit(work)
        except BaseException:
            self._forget_search(typing)
            raise
        future.add_done_callback(lambda _: self._forget_search(typing))
        return await asyncio.wrap_future(future)

    def _count_search(self, typing: bool) -> None:
        with self._lock:
            others = self._searches[False]
            if typing and (others >= self._cores or others + self._searches[True] >= 2 * self._cores):
                raise Overloaded(
                    "The server is busy with other searches, so this one was dropped",
                    retry_after=DROPPED_SEARCH_RETRY_SECONDS,
                )
            self._searches[typing] += 1

    def _forget_search(self, typing: bool) -> None:
        with self._lock:
            self._searches[typing] -= 1

    async def run(self, work: Callable[[], T]) -> T:
        """Run blocking work in the pool; raises EngineUnreachable while the engine closes."""
        if self.closing:
            raise EngineUnreachable("The engine is shutting down")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Refuse new work and wait for running work."""
        self.closing = True
        self._pool.shutdown(wait=True)
