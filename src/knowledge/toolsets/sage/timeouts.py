"""Deadlines for the five timeout levels of contract 003."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from knowledge.errors import DeadlineExceeded, Unavailable
from knowledge.model import Json

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_THREADS = 64
"""Limit of concurrent reads, because a read from a hanging disk blocks its thread forever."""


@dataclass(frozen=True, slots=True)
class PartialResult(Generic[T]):
    items: tuple[T, ...]
    complete: bool


class _BackgroundSteps(Generic[T]):
    running = threading.BoundedSemaphore(MAX_THREADS)

    def __init__(self, steps: Iterable[T]) -> None:
        self.ready: list[T] = []
        self.stopped = threading.Event()
        self._steps = steps
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def start(self) -> None:
        if not self.running.acquire(blocking=False):
            raise Unavailable(
                f"{MAX_THREADS} reads are waiting for the disk", hint="Check the disk of the content folder."
            )
        # A daemon thread, because a hanging read must not block the exit of the process.
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
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._resolve, failure)

    def _resolve(self, failure: Exception | None) -> None:
        if self.ended.done():
            return
        if failure is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(failure)


async def collect_within(steps: Iterable[T], seconds: float) -> PartialResult[T]:
    """Run an iterator in a thread and return its items, or those ready when the time is up."""
    work = _BackgroundSteps(steps)
    work.start()
    try:
        async with asyncio.timeout(seconds) as clock:
            await work.ended
    except TimeoutError:
        if not clock.expired():  # raised by a step, not by our deadline
            raise
        return PartialResult(tuple(work.ready), complete=False)
    finally:
        work.stopped.set()
    return PartialResult(tuple(work.ready), complete=True)


LEVEL_MS = {"T1": 100, "T2": 500, "T3": 2_000, "T4": 5_000, "T5": 10_000}
"""Timeout per level; T1 is answered only from memory."""
TOPIC, STANDARD, LAYER, CONTEXT = "T2", "T3", "T4", "T5"


def find_level(milliseconds: int) -> str:
    """Return the first level whose timeout is not shorter."""
    return next((name for name, limit in LEVEL_MS.items() if milliseconds <= limit), "T5")


@dataclass(frozen=True, slots=True)
class Deadline:
    milliseconds: int
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def for_level(cls, level: str, *ceilings: int | None) -> Deadline:
        """Return the timeout of the level, reduced to the lowest ceiling."""
        return cls(min([LEVEL_MS[level], *(ceiling for ceiling in ceilings if ceiling is not None)]))

    @property
    def level(self) -> str:
        return find_level(self.milliseconds)

    @property
    def is_memory_only(self) -> bool:
        return self.level == "T1"

    @property
    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)

    def seconds_left(self, share: float = 1.0) -> float:
        """Return the seconds until the deadline, or until a share of it."""
        return max(self.began + share * self.milliseconds / 1000 - time.monotonic(), 0.0)


class TimeoutCounter:
    """Counts and logs missed deadlines by level."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Json:
        return {"total": self._counts.total(), **{level: self._counts[level] for level in LEVEL_MS}}

    def record_miss(self, deadline: Deadline, what: str, fallback: Json) -> DeadlineExceeded:
        """Count and log a missed deadline, and return the error with the partial result."""
        self._counts[deadline.level] += 1
        elapsed = deadline.elapsed_ms
        facts = {"what": what, "level": deadline.level, "timeout_ms": deadline.milliseconds, "elapsed_ms": elapsed}
        log.warning("deadline exceeded", extra={"facts": facts})
        return DeadlineExceeded(
            f"Operation exceeded {deadline.level} timeout ({deadline.milliseconds}ms)",
            hint="Use the partial result in 'fallback', or retry: more pages are cached then.",
            timeout_level=deadline.level, timeout_ms=deadline.milliseconds, elapsed_ms=elapsed,
            fallback={**fallback, "complete": False},
        )  # fmt: skip
