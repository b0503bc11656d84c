"""Many files on their way in: a bounded number at once, each followed until its job has ended."""

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
from knowledge.surfaces.cli.session import wait_for_end

MAX_IN_FLIGHT = 8
FATAL_ERRORS = (EngineUnreachable, Unauthenticated, Forbidden, StorageFailed)
"""When one of these ends one file, it would end all others too."""

OnStep = Callable[[str, str, int, int], None]
"""Progress of one file: its name, what is being done, how much of it, of how much."""


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """One document to be sent, made when its turn comes."""

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
        """Send them all; what fails is kept in the tally, and only what would fail for all of them is raised."""
        waiting = iter(uploads)
        async with anyio.create_task_group() as group:
            for _ in range(self.in_flight):
                group.start_soon(self._send_until_empty, waiting, group.cancel_scope)
        if self._fatal_error is not None:
            raise self._fatal_error

    async def _send_until_empty(self, waiting: Iterator[PendingUpload], scope: anyio.CancelScope) -> None:
        for parcel in waiting:
            try:
                outcome = await self._send_one(parcel)
            except FATAL_ERRORS as error:
                self._fatal_error = error
                scope.cancel()
                return
            self.results.record(outcome)
            if self.on_end is not None:
                self.on_end(outcome)

    async def _send_one(self, parcel: PendingUpload) -> AddOutcome:
        try:
            job = await self.engine.add(parcel.make())
        except Duplicate as error:
            found = error.details.get("document_id")
            return AddOutcome(parcel.name, AddStatus.UNCHANGED, document_id=found if isinstance(found, int) else None)
        except FATAL_ERRORS:
            raise
        except KnowledgeError as error:
            return AddOutcome(parcel.name, AddStatus.FAILED, error=error)
        except OSError as error:
            return AddOutcome(parcel.name, AddStatus.FAILED, error=unreadable_file_error(error))
        self.results.record(AddOutcome(parcel.name, AddStatus.ACCEPTED, job))
        if not self.wait:
            return self.results.outcomes[parcel.name]
        return outcome_of(parcel.name, await wait_for_end(self.engine, job, self._make_report(parcel)))

    def _make_report(self, parcel: PendingUpload) -> ReportProgress | None:
        step = self.on_step
        return None if step is None else lambda what, done, total: step(parcel.name, what, done, total)


def unreadable_file_error(error: OSError) -> KnowledgeError:
    kind = f"It cannot be read: {error.strerror or error}"
    return FileNotFound(kind, hint="Check the path and its permissions.", file_path=str(error.filename or ""))
