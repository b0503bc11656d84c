"""What toolsets keep for as long as a server lives, made for one engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.surfaces.sage import open_sage, shelves_on
from knowledge.toolsets.sage.configuration import configured
from knowledge.toolsets.sage.service import Sage
from knowledge.toolsets.uploads import UploadLimits, Uploads


class Services:
    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._sage = open_sage(configured(), shelves_on(engine))
        self._uploads = Uploads(upload_limits(settings))
        self.by_kind: Mapping[type[object], object] = {Sage: self._sage, Uploads: self._uploads}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._sage.running(), self._uploads.running():
            yield


def upload_limits(settings: Settings) -> UploadLimits:
    return UploadLimits(
        folder=settings.data / "uploads",
        max_file_bytes=settings.max_file_bytes,
        total_bytes=settings.upload_total_mb << 20,
        ttl_s=settings.upload_ttl_s,
    )
