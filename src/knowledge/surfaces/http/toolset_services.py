"""Services that toolsets keep for the lifetime of a server, such as staged uploads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.surfaces.sage import open_sage, share_engine
from knowledge.toolsets.sage.configuration import load_configuration
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.staged_uploads import StagedUploads, UploadLimits


class ToolsetServices:
    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._sage = open_sage(load_configuration(), share_engine(engine))
        self._uploads = StagedUploads(make_upload_limits(settings))
        self.by_type: Mapping[type[object], object] = {SageService: self._sage, StagedUploads: self._uploads}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with self._sage.run(), self._uploads.run():
            yield


def make_upload_limits(settings: Settings) -> UploadLimits:
    return UploadLimits(
        folder=settings.data / "uploads",
        max_file_bytes=settings.max_file_bytes,
        total_bytes=settings.upload_total_mb << 20,
        ttl_s=settings.upload_ttl_s,
    )
