"""What the common options said, and the two things a command does with it: read settings, and use an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from knowledge.errors import InvalidParameter

if TYPE_CHECKING:
    from knowledge.config import Settings
    from knowledge.engine.api import Engine

T = TypeVar("T")


@dataclass
class Session:
    """Filled while the command line is read; a command's own options win over those before it."""

    data: Path | None = None
    as_json: bool = False
    debug: bool = False

    @property
    def folder(self) -> Path | None:
        """The data folder that was named, from the root."""
        return None if self.data is None else self.data.expanduser().absolute()

    @cached_property
    def settings(self) -> Settings:
        return read_settings({} if self.folder is None else {"data": self.folder})

    def run(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        """Open the engine, do this with it, and close it."""
        import asyncio

        return asyncio.run(self._with_engine(work))

    async def _with_engine(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        from knowledge.surfaces.cli.connection import engine

        async with engine(self.settings) as opened:
            return await work(opened)


def read_settings(given: dict[str, object]) -> Settings:
    """The settings, with what was given here before what the environment says."""
    from pydantic import ValidationError

    from knowledge.config import Settings

    try:
        return Settings.model_validate(Settings(**given))  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "setting"
        variable = name if name.isupper() else f"KNOWLEDGE_{name.upper()}"
        raise InvalidParameter(
            f"The setting {variable} is wrong: {first['msg']}",
            hint=f"Correct or unset {variable}.",
            parameter=name,
        ) from error
