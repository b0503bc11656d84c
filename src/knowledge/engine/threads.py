"""Thread pool for the blocking work of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from knowledge.errors import EngineUnreachable

T = TypeVar("T")

MAX_THREADS = 64


class EngineThreads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="engine")
        self.closing = False

    async def run(self, work: Callable[[], T]) -> T:
        """Run blocking work in the pool; raises EngineUnreachable while the engine closes."""
        if self.closing:
            raise EngineUnreachable("The engine is shutting down")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Refuse new work and wait for running work."""
        self.closing = True
        self._pool.shutdown(wait=True)
