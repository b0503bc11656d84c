"""What toolsets keep for as long as a server lives, made for one engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from knowledge.engine.api import Engine
from knowledge.surfaces.sage import open_sage, shelves_on
from knowledge.toolsets.sage.configuration import configured
from knowledge.toolsets.sage.service import Sage


class Services:
    def __init__(self, engine: Engine) -> None:
        self._sage = open_sage(configured(), shelves_on(engine))
        self.by_kind: Mapping[type[object], object] = {Sage: self._sage}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._sage.running():
            yield
