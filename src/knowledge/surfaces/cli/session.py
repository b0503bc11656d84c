"""The session of a command: common options, settings, engine, and waiting for a job or the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # `knowledge --help` imports this module, and must start quickly
    from knowledge.config import Settings
    from knowledge.engine.api import Engine
    from knowledge.model import Job, ReportProgress

T = TypeVar("T")

WAIT_SECONDS = 30.0
"""Length of one long poll for a job."""

STARTUP_SECONDS = 30.0
MODEL_POLL_SECONDS = 0.05
NO_MODEL = "none"


@dataclass
class CliSession:
    """The common options of a command line; options after the command override those before it."""

    data: Path | None = None
    as_json: bool = False
    debug: bool = False

    @property
    def data_folder(self) -> Path | None:
        """The absolute path of --data."""
        return None if self.data is None else self.data.expanduser().absolute()

    @cached_property
    def settings(self) -> Settings:
        from knowledge.config import read_settings

        return read_settings() if self.data_folder is None else read_settings(data=self.data_folder)

    def run(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        """Open the engine, run `work` with it, and close it."""
        import asyncio

        return asyncio.run(self._with_engine(work))

    async def _with_engine(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        from knowledge.surfaces.http.open_engine import open_engine

        async with open_engine(self.settings) as opened:
            return await work(opened)


async def wait_for_end(engine: Engine, job: Job, report: ReportProgress | None = None) -> Job:
    """Wait until a job has ended."""
    while not job.status.has_ended:
        job = await engine.wait(job.id, WAIT_SECONDS, report)
    return job


async def wait_for_model(engine: Engine) -> None:
    """Wait until the model is loaded, has failed or is off, or the engine has been up for STARTUP_SECONDS."""
    import asyncio

    while True:
        status = await engine.status()
        model = status.model
        if model.loaded or model.error or model.name == NO_MODEL or status.uptime_seconds > STARTUP_SECONDS:
            return
        await asyncio.sleep(MODEL_POLL_SECONDS)
