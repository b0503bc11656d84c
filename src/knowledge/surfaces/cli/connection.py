"""Where the commands get their engine: the one elsewhere that was named, or the data folder's, whoever holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from knowledge.config import Settings
from knowledge.engine.api import Engine


@asynccontextmanager
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    from knowledge.surfaces.http.open_engine import open_engine

    async with open_engine(settings) as opened:
        yield opened
