"""Work against the clock: small steps in a thread of their own, and what is ready when the time is up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from knowledge.errors import Unavailable

T = TypeVar("T")

MOST_THREADS = 64
"""A disk that hangs keeps its threads for ever; somebody has to stop adding to them."""


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    items: tuple[T, ...]
    complete: bool


class _Work(Generic[T]):
    running = threading.BoundedSemaphore(MOST_THREADS)

    def __init__(self, steps: Iterable[T]) -> None:
        self.ready: list[T] = []
        self.stopped = threading.Event()
        self._steps = steps
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def start(self) -> None:
        if not self.running.acquire(blocking=False):
            raise Unavailable("Too many reads are waiting for the disk", hint="Look at the disk of the content folder.")
        # A daemon, since a read that hangs must not keep the program from ending.
        threading.Thread(target=self._run, name="gather", daemon=True).start()

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            for item in self._steps:
                if self.stopped.is_set():
                    break
                self.ready.append(item)
        except Exception as error:
            failure = error
        finally:
            self.running.release()
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, failure)

    def _settle(self, failure: Exception | None) -> None:
        if self.ended.done():
            return
        if failure is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(failure)


async def gather(steps: Iterable[T], seconds: float) -> Gathered[T]:
    """Everything that the steps yield, or what they have yielded when the seconds are over; the rest is cancelled."""
    work = _Work(steps)
    work.start()
    try:
        async with asyncio.timeout(seconds) as clock:
            await work.ended
    except TimeoutError:
        if not clock.expired():  # the disk's own, not ours
            raise
        return Gathered(tuple(work.ready), complete=False)
    finally:
        work.stopped.set()
    return Gathered(tuple(work.ready), complete=True)
