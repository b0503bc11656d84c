"""Uploads many files with bounded concurrency and waits for their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import anyio

from knowledge.engine.api import Engine
from knowledge.errors import (
    Duplicate,
    EngineUnreachable,
    FileNotFound,
    Forbidden,
    KnowledgeError,
    StorageFailed,
    Unauthenticated,
)
from knowledge.model import NewDocument, ReportProgress
from knowledge.surfaces.cli.add.outcomes import AddOutcome, AddResults, AddStatus, outcome_of
from knowledge.surfaces.waiting import wait_for_end

MAX_IN_FLIGHT = 8
FATAL_ERRORS = (EngineUnreachable, Unauthenticated, Forbidden, StorageFailed)
"""Errors that would fail every file, so the upload stops."""

OnStep = Callable[[str, str, int, int], None]
"""Progress of one file: name, step, done, total."""


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """A document to upload; `make` opens it when its turn comes."""

    name: str
    make: Callable[[], NewDocument]


@dataclass(slots=True)
class Uploader:
    engine: Engine
    results: AddResults
    in_flight: int = MAX_IN_FLIGHT
    wait: bool = True
    on_step: OnStep | None = None
    on_end: Callable[[AddOutcome], None] | None = None
    _fatal_error: KnowledgeError | None = field(default=None, init=False)

    async def send_all(self, uploads: Iterable[PendingUpload]) -> None:
        """Upload all documents; records failures in the results and raises only fatal errors."""
        waiting = iter(uploads)
        async with anyio.create_task_group() as group:
            for _ in range(self.in_flight):
                group.start_soon(self._send_until_empty, waiting, group.cancel_scope)
        if self._fatal_error is not None:
            raise self._fatal_error

    async def _send_until_empty(self, waiting: Iterator[PendingUpload], scope: anyio.CancelScope) -> None:
        for upload in waiting:
            try:
                outcome = await self._send_one(upload)
            except FATAL_ERRORS as error:
                self._fatal_error = error
                scope.cancel()
                return
            self.results.record(outcome)
            if self.on_end is not None:
                self.on_end(outcome)

    async def _send_one(self, upload: PendingUpload) -> AddOutcome:
        try:
            job = await self.engine.add(upload.make())
        except Duplicate as error:
            found = error.details.get("document_id")
            return AddOutcome(upload.name, AddStatus.UNCHANGED, document_id=found if isinstance(found, int) else None)
        except FATAL_ERRORS:
            raise
        except KnowledgeError as error:
            return AddOutcome(upload.name, AddStatus.FAILED, error=error)
        except OSError as error:
            return AddOutcome(upload.name, AddStatus.FAILED, error=unreadable_file_error(error))
        self.results.record(AddOutcome(upload.name, AddStatus.ACCEPTED, job))
        if not self.wait:
            return self.results.outcomes[upload.name]
        return outcome_of(upload.name, await wait_for_end(self.engine, job, self._make_report(upload)))

    def _make_report(self, upload: PendingUpload) -> ReportProgress | None:
        step = self.on_step
        return None if step is None else lambda what, done, total: step(upload.name, what, done, total)


def unreadable_file_error(error: OSError) -> KnowledgeError:
    message = f"The file cannot be read: {error.strerror or error}"
    return FileNotFound(message, hint="Check the path and its permissions.", file_path=str(error.filename or ""))
