"""The MaintenanceApi over HTTP."""

from __future__ import annotations

from knowledge.engine.remote.http import LONG_TIMEOUTS, EngineClient
from knowledge.model import Job, Original, Ref


class RemoteMaintenance:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def verify(self) -> Job:
        return await self._client.call(Job, "POST", "/maintenance/verify")

    async def reindex(self) -> Job:
        return await self._client.call(Job, "POST", "/maintenance/reindex")

    async def backup(self) -> Job:
        return await self._client.call(Job, "POST", "/maintenance/backup")

    async def archive(self, ref: Ref) -> Original:
        return Original(*await self._client.download_file(f"/maintenance/backup/{ref}", timeout=LONG_TIMEOUTS))
