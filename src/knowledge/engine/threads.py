"""The threads in which the engine does its blocking work for the event loop."""

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
        """Run blocking work and answer its result; EngineUnreachable once the engine is being closed."""
        if self.closing:
            raise EngineUnreachable("The engine is being closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Take no more work, and wait for what has begun."""
        self.closing = True
        self._pool.shutdown(wait=True)
