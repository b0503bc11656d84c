"""Runs the work of drawing in a few threads, each piece once, with a limit on what waits in total and per caller."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

from knowledge.errors import Busy, EngineUnreachable

T = TypeVar("T")

DRAWING_THREADS = 2
MAX_WAITING, MAX_WAITING_PER_OWNER = 48, 16
"""A browser asks for at most six pictures at a time, so this is one person with several windows."""
RETRY_SECONDS = 1


class DrawingQueue:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(DRAWING_THREADS, thread_name_prefix="drawing")
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[object]] = {}
        self._owners: Counter[int] = Counter()
        self._closed = False

    def submit(self, key: Hashable, owner: int, work: Callable[[], T]) -> Future[T]:
        """Start the work, or return the same work that is already running or waiting; raises Busy."""
        with self._lock:
            if self._closed:
                raise EngineUnreachable("The engine is shutting down")
            known = self._running.get(key)
            if known is not None:
                return cast("Future[T]", known)
            if len(self._running) >= MAX_WAITING or self._owners[owner] >= MAX_WAITING_PER_OWNER:
                raise Busy(
                    f"{len(self._running)} pages are being drawn or wait to be drawn",
                    retry_after=RETRY_SECONDS,
                    waiting=len(self._running),
                )
            future = self._pool.submit(work)
            self._running[key] = cast("Future[object]", future)
            self._owners[owner] += 1
        future.add_done_callback(lambda _: self._end(key, owner))
        return future

    def _end(self, key: Hashable, owner: int) -> None:
        with self._lock:
            del self._running[key]
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]

    def close(self) -> None:
        """Drop waiting work and wait for running work."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)
