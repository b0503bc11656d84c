"""Waits for jobs and for the embedding model, for callers that have nothing else to do."""

from __future__ import annotations

import asyncio

from knowledge.engine.api import Engine
from knowledge.model import Job, ReportProgress

WAIT_SECONDS = 30.0
"""Length of one long poll for a job."""
STARTUP_SECONDS = 30.0
MODEL_POLL_SECONDS = 0.05
NO_MODEL = "none"


async def wait_for_end(engine: Engine, job: Job, report: ReportProgress | None = None) -> Job:
    """Wait until a job has ended."""
    while not job.status.has_ended:
        job = await engine.wait(job.id, WAIT_SECONDS, report)
    return job


async def wait_for_model(engine: Engine) -> None:
    """Wait until the model is loaded, has failed or is off, or the engine has been up for STARTUP_SECONDS."""
    while True:
        status = await engine.status()
        model = status.model
        if model.loaded or model.error or model.name == NO_MODEL or status.uptime_seconds > STARTUP_SECONDS:
            return
        await asyncio.sleep(MODEL_POLL_SECONDS)
