"""Reads the engine status: counts for a scope, jobs, sizes and issues."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from knowledge import __version__
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.indexing.models import EmbeddingModels
from knowledge.model import LOCAL_OWNER, EngineStatus, JobStatus, Scope
from knowledge.store.changes import ChangeLog
from knowledge.store.collections import CollectionStore
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.jobs import JobStore

LOW_DISK_BYTES = 200 << 20


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
    ) -> None:
        self._data, self._database, self._documents, self._collections = data, database, documents, collections
        self._jobs, self._changes, self._models, self._indexer = jobs, changes, models, indexer
        self._began = time.monotonic()

    def read(self, scope: Scope) -> EngineStatus:
        """Return the status; for an account without global sizes and times, which would reveal activity of others."""
        for_account = scope.owner > LOCAL_OWNER
        documents, chunks = self._documents.count(scope)
        jobs, storage = self._jobs.count_by_status(scope), find_storage_issue(self._data / "files")
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
            issues=tuple(issue for issue in [storage, *self._find_issues()] if issue),
            last_change=self._documents.last_changed_at(scope) if for_account else self._changes.last_changed_at(),
            storage_ok=storage is None,
            index_ok=self._indexer.failure is None,
        )

    def _find_issues(self) -> Iterator[str | None]:
        yield from (*self._models.list_issues(), self._indexer.failure)
        if self._indexer.rebuilding:
            yield "The index is being rebuilt; until then some passages are not found."
        free = shutil.disk_usage(self._data).free
        if free < LOW_DISK_BYTES:
            yield f"Low disk space: {free >> 20} MB are free on the disk of the data folder."


def find_storage_issue(folder: Path) -> str | None:
    try:
        os.scandir(folder).close()
    except OSError as error:
        return f"Storage directory not accessible: {error.strerror}"
    return None if os.access(folder, os.W_OK) else "Storage directory not writable"
