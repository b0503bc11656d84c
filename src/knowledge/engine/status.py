"""How the engine stands: what it holds for whoever asks, what it is doing, and what a person should know."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

from knowledge import __version__
from knowledge.engine.runtime import Parts
from knowledge.model import LOCAL_OWNER, JobStatus, Scope, Status

LOW_DISK = 200 << 20


def status(parts: Parts, scope: Scope) -> Status:
    """An account is told of what it sees itself: sizes and dates of the whole would speak of the others."""
    alone = scope.owner > LOCAL_OWNER
    documents, chunks = parts.documents.count(scope)
    jobs, storage = parts.jobs.counts(scope), storage_trouble(parts)
    return Status(
        version=__version__,
        uptime_seconds=round(time.monotonic() - parts.began, 3),
        data_path="" if alone else str(parts.options.data),
        model=parts.models.status(),
        documents=documents,
        chunks=chunks,
        collections=parts.collections.count(scope),
        queued=jobs.get(JobStatus.QUEUED, 0),
        processing=jobs.get(JobStatus.PROCESSING, 0),
        failed=jobs.get(JobStatus.FAILED, 0),
        database_bytes=0 if alone else parts.database.size_bytes(),
        files_bytes=parts.documents.files_bytes(scope.owner if alone else None),
        index_bytes=0 if alone else parts.indexer.index.size_bytes(),
        issues=tuple(issue for issue in [storage, *issues(parts)] if issue),
        last_change=parts.documents.last_change(scope) if alone else parts.changes.last_moment(),
        storage_ok=storage is None,
        index_ok=parts.indexer.trouble is None,
    )


def storage_trouble(parts: Parts) -> str | None:
    folder = parts.options.data / "files"
    try:
        os.scandir(folder).close()
    except OSError as error:
        return f"Storage directory not accessible: {error.strerror}"
    return None if os.access(folder, os.W_OK) else "Storage directory not writable"


def issues(parts: Parts) -> Iterator[str | None]:
    """What a person should know, in sentences."""
    yield from (*parts.models.issues(), parts.indexer.trouble)
    if parts.indexer.rebuilding:
        yield "The index is being rebuilt; until then some passages are not found."
    free = shutil.disk_usage(parts.options.data).free
    if free < LOW_DISK:
        yield f"Only {free >> 20} MB are free on the disk of the data folder."
