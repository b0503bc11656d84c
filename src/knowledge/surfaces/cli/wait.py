"""Waits for a job to end, for as long as it takes."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.model import Job, Report

WAIT_SECONDS = 30.0
"""How long one call waits before the next is made; so a connection never hangs for hours."""


async def end_of(engine: Engine, job: Job, report: Report | None = None) -> Job:
    while not job.status.ended:
        job = await engine.wait(job.id, WAIT_SECONDS, report)
    return job
