"""Sends the progress of jobs to MCP clients, in order and never decreasing."""

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
from knowledge.toolsets.base import COMPLETED_STEP

log = logging.getLogger(__name__)

SendProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends one progress notification: progress, total, message."""

MAX_BUFFERED_REPORTS = 1000
WAITING_MESSAGE = "Waiting"
FOLLOW_SECONDS = 24 * 3600.0


class MonotonicProgress:
    """Converts the steps of a job to fractions that always increase, as the MCP specification requires."""

    def __init__(self) -> None:
        self._last = -1.0

    def advance(self, done: int, total: int) -> float:
        fraction = min(done / total, 0.99) if total else 0.0
        if fraction <= self._last:  # the next step counts from zero again
            fraction = self._last + (1.0 - self._last) / 100
        self._last = fraction
        return round(fraction, 6)


@asynccontextmanager
async def relay_progress(send_progress: SendProgress) -> AsyncIterator[ReportProgress]:
    """Yield a non-blocking report function; send its reports in order, all of them before the context ends."""
    send, receive = anyio.create_memory_object_stream[tuple[str, int, int]](MAX_BUFFERED_REPORTS)

    completed = False

    def report(step: str, done: int, total: int) -> None:
        nonlocal completed
        if step == COMPLETED_STEP:
            completed = True
            return
        # A report is dropped if the client is slow or gone; the next one replaces it.
        with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            send.send_nowait((step, done, total))

    async def drain() -> None:
        progress, last_sent = MonotonicProgress(), ("", -1)
        async for step, done, total in receive:
            if (step, done) != last_sent:
                last_sent = (step, done)
                await send_progress(progress.advance(done, total), 1.0, step or WAITING_MESSAGE)
        if completed:
            await send_progress(1.0, 1.0, COMPLETED_STEP)

    async with receive, anyio.create_task_group() as group:
        group.start_soon(drain)
        with send:
            yield report


async def follow_job(engine: Engine, job: UUID, send_progress: SendProgress) -> None:
    """Send the progress of a job to a connection until the job ends."""
    try:
        async with relay_progress(send_progress) as report:
            ended = await engine.wait(job, FOLLOW_SECONDS, report)
        await send_progress(1.0, 1.0, ended.status.value.capitalize())
    except KnowledgeError as error:  # the engine is unreachable; the client can poll the job instead
        log.info("stopped sending progress of job %s: %s", job, error)
