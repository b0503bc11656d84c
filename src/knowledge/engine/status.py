"""Reads the engine status: counts for a scope, jobs, sizes and issues."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from knowledge.blobs.api import Blobs
from knowledge.engine.cluster.member import ServerRole
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.indexing.models import EmbeddingModels
from knowledge.engine.maintenance.schedule import BackupSchedule
from knowledge.extract.process.parsers import Parsers
from knowledge.extract.process.process_memory import read_anonymous_bytes
from knowledge.model import (
    LOCAL_OWNER,
    BackupStatus,
    EngineLoad,
    EngineStatus,
    JobStatus,
    ProcessStatus,
    Scope,
    ServerStatus,
)
from knowledge.store.changes import ChangeLog
from knowledge.store.cluster.servers import ServerStore
from knowledge.store.collections import CollectionStore
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.jobs.load import count_contents, measure_queue
from knowledge.version import __version__

LOW_DISK_BYTES = 200 << 20
LAGGING_CHANGES = 1000
"""Changes from which on the index of a server counts as lagging."""


class StatusReader:
    def __init__(
        self,
        data: Path,
        database: Database,
        documents: DocumentStore,
        collections: CollectionStore,
        jobs: JobStore,
        changes: ChangeLog,
        models: EmbeddingModels,
        indexer: IndexFollower,
        parsers: Parsers,
        files: Blobs,
        backups: BackupSchedule,
        servers: ServerStore | None = None,
    ) -> None:
        """`servers` is set if other servers use the database."""
        self._files, self._backups, self._servers = files, backups, servers
        self._data, self._database, self._documents, self._collections = data, database, documents, collections
        self._jobs, self._changes, self._models, self._indexer = jobs, changes, models, indexer
        self._parsers = parsers
        self._began = time.monotonic()

    def read(self, scope: Scope) -> EngineStatus:
        """Return the status; for an account without global sizes and times, which would reveal activity of others."""
        for_account = scope.owner > LOCAL_OWNER
        documents, chunks = self._documents.count(scope)
        servers = () if self._servers is None or for_account else self._list_servers(self._servers)
        backup = BackupStatus() if for_account else self._backups.read_status()
        jobs, storage = self._jobs.count_by_status(scope), self._files.find_issue()
        return EngineStatus(
            version=__version__,
            uptime_seconds=round(time.monotonic() - self._began, 3),
            data_path="" if for_account else str(self._data),
            model=self._models.status(),
            documents=documents,
            chunks=chunks,
            collections=self._collections.count(scope),
            queued=jobs.get(JobStatus.QUEUED, 0),
            processing=jobs.get(JobStatus.PROCESSING, 0),
            failed=jobs.get(JobStatus.FAILED, 0),
            database_bytes=0 if for_account else self._database.size_bytes(),
            files_bytes=self._documents.sum_file_bytes(scope.owner if for_account else None),
            index_bytes=0 if for_account else self._indexer.index.size_bytes(),
            issues=tuple(
                issue
                for issue in [
                    storage,
                    *self._find_issues(),
                    *find_server_issues(servers),
                    *find_backup_issues(backup),
                ]
                if issue
            ),
            last_change=self._documents.last_changed_at(scope) if for_account else self._changes.last_changed_at(),
            storage_ok=storage is None,
            index_ok=self._indexer.failure is None,
            chunks_without_vectors=self._documents.count_without_vectors(scope),
            processes=ProcessStatus() if for_account else self._measure_processes(),
            database="" if for_account else self._database.product,
            servers=servers,
            load=EngineLoad() if for_account else self._measure_load(),
            backup=backup,
            free_bytes=0 if for_account else shutil.disk_usage(self._data).free,
        )

    def _list_servers(self, servers: ServerStore) -> tuple[ServerStatus, ...]:
        newest = self._changes.newest_seq()
        return tuple(
            ServerStatus(
                id=server.id,
                address=server.address,
                version=server.version,
                role=server.role,
                ready=server.is_ready or (server.is_live and not ServerRole(server.role).has_index),
                lag=max(0, newest - max(server.applied_seq, 0)) if ServerRole(server.role).has_index else 0,
                last_seen=server.seen_at,
                live=server.is_live,
            )
            for server in servers.list_all()
        )

    def _measure_load(self) -> EngineLoad:
        documents, chunks = count_contents(self._database)
        return EngineLoad(
            queue=measure_queue(self._database),
            index_lag=self._indexer.changes_behind if self._indexer.was_started else 0,  # a server may have no index
            documents=documents,
            chunks=chunks,
        )

    def _measure_processes(self) -> ProcessStatus:
        return ProcessStatus(read_anonymous_bytes(os.getpid()), *self._parsers.measure_memory())

    def _find_issues(self) -> Iterator[str | None]:
        yield from (*self._models.list_issues(), self._indexer.failure)
        if self._indexer.rebuilding:
            yield "The index is being rebuilt; until then some passages are not found."
        free = shutil.disk_usage(self._data).free
        if free < LOW_DISK_BYTES:
            yield f"Low disk space: {free >> 20} MB are free on the disk of the data folder."


def find_backup_issues(backup: BackupStatus) -> Iterator[str]:
    """Yield whether the last backup by schedule failed, and whether the newest one is too old."""
    if backup.error and backup.attempted_at is not None:
        yield f"The backup by schedule failed at {backup.attempted_at:%Y-%m-%d %H:%M} UTC: {backup.error}"
    if backup.overdue and backup.succeeded_at is not None:
        yield f"No backup by schedule has succeeded since {backup.succeeded_at:%Y-%m-%d %H:%M} UTC."


def find_server_issues(servers: Sequence[ServerStatus]) -> Iterator[str]:
    """Yield which servers are missing or have an index that lags behind."""
    for server in servers:
        name = f"Server {server.id} at {server.address}"
        if not server.live:
            yield f"{name} was last seen at {server.last_seen:%Y-%m-%d %H:%M:%S} UTC."
        elif server.lag and (not server.ready or server.lag >= LAGGING_CHANGES):
            yield f"{name} lags: its index has not applied {server.lag} changes."
