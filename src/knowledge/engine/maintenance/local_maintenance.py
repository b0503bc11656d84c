"""The MaintenanceApi of LocalEngine."""

from __future__ import annotations

from knowledge.engine.maintenance.service import MaintenanceService
from knowledge.engine.threads import EngineThreads
from knowledge.model import Job, JobKind, Original, Ref, Scope
from knowledge.store.jobs.jobs import JobStore


class LocalMaintenance:
    def __init__(
        self, threads: EngineThreads, service: MaintenanceService, jobs: JobStore, scope: Scope, *, for_operator: bool
    ) -> None:
        self._run, self._service, self._jobs = threads.run, service, jobs
        self._scope, self._for_operator = scope, for_operator

    async def verify(self) -> Job:
        return await self._start(JobKind.VERIFY)

    async def reindex(self) -> Job:
        return await self._start(JobKind.REINDEX)

    async def backup(self) -> Job:
        return await self._start(JobKind.BACKUP)

    async def archive(self, ref: Ref) -> Original:
        return await self._run(lambda: self._service.find_archive(self._jobs.find(ref, self._scope)))

    async def _start(self, kind: JobKind) -> Job:
        return await self._run(lambda: self._service.start(kind, self._scope, for_operator=self._for_operator))
