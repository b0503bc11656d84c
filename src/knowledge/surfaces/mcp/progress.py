"""Progress on its way to a client: reported by the engine as it happens, sent one after the other, never backwards."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias
from uuid import UUID

import anyio

from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError
from knowledge.model import ReportProgress

log = logging.getLogger(__name__)

SendProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends one notification: progress, total, message."""

MAX_BUFFERED_REPORTS = 1000
WAITING_MESSAGE = "Waiting"
FOLLOW_SECONDS = 24 * 3600.0


class MonotonicProgress:
    """The steps of a job as shares of the whole that only ever grow, as the protocol demands."""

    def __init__(self) -> None:
        self._last = -1.0

    def advance(self, done: int, total: int) -> float:
        share = min(done / total, 0.99) if total else 0.0
        if share <= self._last:  # another step began to count from the start
            share = self._last + (1.0 - self._last) / 100
        self._last = share
        return round(share, 6)


@asynccontextmanager
async def relay_progress(send_progress: SendProgress) -> AsyncIterator[ReportProgress]:
    """A report that may be called at any time, and what it says is sent in turn; all of it before this ends."""
    send, receive = anyio.create_memory_object_stream[tuple[str, int, int]](MAX_BUFFERED_REPORTS)

    def report(step: str, done: int, total: int) -> None:
        # Where the client is slow or gone, the next report says more.
        with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            send.send_nowait((step, done, total))

    async def drain() -> None:
        climb, said = MonotonicProgress(), ("", -1)
        async for step, done, total in receive:
            if (step, done) != said:
                said = (step, done)
                await send_progress(climb.advance(done, total), 1.0, step or WAITING_MESSAGE)

    async with receive, anyio.create_task_group() as group:
        group.start_soon(drain)
        with send:
            yield report


async def follow_job(engine: Engine, job: UUID, send_progress: SendProgress) -> None:
    """Tell a connection how a job goes on until it ends."""
    try:
        async with relay_progress(send_progress) as report:
            ended = await engine.wait(job, FOLLOW_SECONDS, report)
        await send_progress(1.0, 1.0, ended.status.value.capitalize())
    except KnowledgeError as error:  # the engine went away; the client can still ask
        log.info("cannot follow job %s any longer: %s", job, error)
