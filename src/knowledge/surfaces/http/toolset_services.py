"""Services that toolsets keep for the lifetime of a server, such as staged uploads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from knowledge.blobs.s3.bucket_url import parse_bucket_url
from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.surfaces.sage import open_sage, share_engine
from knowledge.toolsets.sage.configuration import load_configuration
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.shared_uploads import SharedUploads
from knowledge.toolsets.staged_objects import StagedObjects
from knowledge.toolsets.staged_uploads import StagedUploads, UploadLimits


class ToolsetServices:
    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._sage = open_sage(load_configuration(), share_engine(engine))
        limits = make_upload_limits(settings)
        self._uploads = open_uploads(settings, limits)
        self.by_type: Mapping[type[object], object] = {SageService: self._sage, StagedUploads: self._uploads}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with self._sage.run(), self._uploads.run():
            yield


def open_uploads(settings: Settings, limits: UploadLimits) -> StagedUploads:
    """Return uploads of this server alone, or beside the originals that all servers of a database share."""
    if settings.database_url is None:
        return StagedUploads(limits)
    if settings.originals_url is None:
        return SharedUploads(limits)
    from knowledge.blobs.s3.bucket import Bucket  # lazy: needs the extra

    return SharedUploads(limits, staging=StagedObjects(Bucket(parse_bucket_url(settings.originals_url))))


def make_upload_limits(settings: Settings) -> UploadLimits:
    return UploadLimits(
        folder=find_upload_folder(settings),
        max_file_bytes=settings.max_file_bytes,
        total_bytes=settings.upload_total_mb << 20,
        ttl_s=settings.upload_ttl_s,
    )


def find_upload_folder(settings: Settings) -> Path:
    """Return the folder of unfinished uploads: that of the originals if several servers must be able to go on."""
    if settings.database_url is None:
        return settings.data / "uploads"
    return (settings.originals or settings.data / "files") / "uploads"
