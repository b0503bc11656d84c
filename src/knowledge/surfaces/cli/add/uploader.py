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
from knowledge.model import NewDocument, Report
from knowledge.surfaces.cli.add.outcomes import Fate, Outcome, Tally, outcome_of
from knowledge.surfaces.cli.wait import end_of

IN_FLIGHT = 8
HOPELESS = (EngineUnreachable, Unauthenticated, Forbidden, StorageFailed)
"""When one of these ends one file, it would end all others too."""

Step = Callable[[str, str, int, int], None]
"""Progress of one file: its name, what is being done, how much of it, of how much."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One document to be sent, made when its turn comes."""

    name: str
    make: Callable[[], NewDocument]


@dataclass(slots=True)
class Upload:
    engine: Engine
    tally: Tally
    in_flight: int = IN_FLIGHT
    wait: bool = True
    on_step: Step | None = None
    on_end: Callable[[Outcome], None] | None = None
    _hopeless: KnowledgeError | None = field(default=None, init=False)

    async def send(self, parcels: Iterable[Parcel]) -> None:
        """Send them all; what fails is kept in the tally, and only what would fail for all of them is raised."""
        waiting = iter(parcels)
        async with anyio.create_task_group() as group:
            for _ in range(self.in_flight):
                group.start_soon(self._send_while_there_are, waiting, group.cancel_scope)
        if self._hopeless is not None:
            raise self._hopeless

    async def _send_while_there_are(self, waiting: Iterator[Parcel], scope: anyio.CancelScope) -> None:
        for parcel in waiting:
            try:
                outcome = await self._send(parcel)
            except HOPELESS as error:
                self._hopeless = error
                scope.cancel()
                return
            self.tally.note(outcome)
            if self.on_end is not None:
                self.on_end(outcome)

    async def _send(self, parcel: Parcel) -> Outcome:
        try:
            job = await self.engine.add(parcel.make())
        except Duplicate as error:
            found = error.details.get("document_id")
            return Outcome(parcel.name, Fate.UNCHANGED, document_id=found if isinstance(found, int) else None)
        except HOPELESS:
            raise
        except KnowledgeError as error:
            return Outcome(parcel.name, Fate.FAILED, error=error)
        except OSError as error:
            return Outcome(parcel.name, Fate.FAILED, error=unreadable(error))
        self.tally.note(Outcome(parcel.name, Fate.ACCEPTED, job))
        if not self.wait:
            return self.tally.outcomes[parcel.name]
        return outcome_of(parcel.name, await end_of(self.engine, job, self._report(parcel)))

    def _report(self, parcel: Parcel) -> Report | None:
        step = self.on_step
        return None if step is None else lambda what, done, total: step(parcel.name, what, done, total)


def unreadable(error: OSError) -> KnowledgeError:
    kind = f"It cannot be read: {error.strerror or error}"
    return FileNotFound(kind, hint="Check the path and its permissions.", file_path=str(error.filename or ""))
