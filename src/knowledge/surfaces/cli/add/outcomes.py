"""What became of everything that was to be added."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from knowledge.errors import BY_CODE, Internal, KnowledgeError
from knowledge.model import Job, JobStatus


class Fate(StrEnum):
    ADDED = "added"
    UNCHANGED = "unchanged"
    """The same bytes are there already."""
    ACCEPTED = "accepted"
    """Taken in, and not read yet."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    fate: Fate
    job: Job | None = None
    error: KnowledgeError | None = None
    document_id: int | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.job.warnings if self.job else ()


@dataclass(slots=True)
class Tally:
    planned: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    unsupported: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    interrupted: bool = False

    def note(self, outcome: Outcome) -> None:
        self.outcomes[outcome.name] = outcome

    def of(self, fate: Fate) -> list[Outcome]:
        return [outcome for outcome in self.outcomes.values() if outcome.fate is fate]

    @property
    def not_begun(self) -> int:
        return self.planned - len(self.outcomes)

    @property
    def ended(self) -> int:
        return len(self.outcomes) - len(self.of(Fate.ACCEPTED))


def outcome_of(name: str, job: Job) -> Outcome:
    """What a job that has ended says about its file."""
    if job.status in (JobStatus.COMPLETED, JobStatus.PARTIAL):
        return Outcome(name, Fate.ADDED, job, document_id=job.document_id)
    return Outcome(name, Fate.FAILED, job, failure_of(job))


def failure_of(job: Job) -> KnowledgeError:
    """The error that ended a job, as the class that it was."""
    if job.error is None:
        return BY_CODE["cancelled"]("It was cancelled", hint=f"'knowledge jobs retry {job.id}' takes it up again.")
    error = BY_CODE.get(job.error.code, Internal)(job.error.message, hint=job.error.hint)
    error.details = job.error.details
    return error
