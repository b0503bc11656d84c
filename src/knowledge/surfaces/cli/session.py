"""The session of a command: common options, settings and engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # `knowledge --help` imports this module, and must start quickly
    from knowledge.config import Settings
    from knowledge.engine.api import Engine

T = TypeVar("T")


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
