"""The outcomes of `knowledge add`, and their summary as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import click

from knowledge.error_codes import load_job_error
from knowledge.errors import Cancelled, KnowledgeError
from knowledge.model import Job, JobStatus
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.errors import join_sentences
from knowledge.surfaces.cli.output.terminal import pluralize, sanitize_text

if TYPE_CHECKING:
    from knowledge.surfaces.cli.output.json_shapes import AddShape, OutcomeShape

RERUN_HINT = "Run the same command again to continue; unchanged files are skipped."


def print_summary(results: AddResults, seconds: float) -> None:
    for line in format_summary(results, seconds):
        click.echo(sanitize_text(line))


def format_summary(results: AddResults, seconds: float) -> Iterator[str]:
    added, unchanged, failed = (
        results.select(AddStatus.ADDED),
        results.select(AddStatus.UNCHANGED),
        results.select(AddStatus.FAILED),
    )
    accepted = results.select(AddStatus.ACCEPTED)
    if added:
        passages = sum(outcome.job.chunk_count for outcome in added if outcome.job)
        documents = f"{pluralize(len(added), 'document')} ({pluralize(passages, 'passage')})"
        yield f"Added {documents} in {format_duration(seconds)}."
    if unchanged:
        yield f"{pluralize(len(unchanged), 'file is', 'files are')} unchanged."
    if accepted:
        yield f"{pluralize(len(accepted), 'file is', 'files are')} queued; 'knowledge jobs --follow' shows progress."
    yield from format_skipped(results)
    if not results.outcomes and not results.interrupted:
        yield "No files to add."
    for outcome in added:
        yield from (f"  {outcome.name}: {warning}" for warning in outcome.warnings)
    if failed:
        yield f"{pluralize(len(failed), 'file')} failed:"
        yield from (f"  {outcome.name}: {format_reason(outcome)}" for outcome in failed)
    if results.interrupted:
        yield f"Interrupted. {pluralize(results.not_begun, 'file was', 'files were')} not started. {RERUN_HINT}"


def format_skipped(results: AddResults) -> Iterator[str]:
    if results.unsupported:
        kinds = ", ".join(f"{suffix} {number}" for suffix, number in results.unsupported.most_common(8))
        yield f"Skipped {pluralize(results.unsupported.total(), 'file')} of unsupported formats: {kinds}."
    if results.empty:
        yield f"Skipped {pluralize(results.empty, 'empty file')}."


def format_reason(outcome: AddOutcome) -> str:
    return join_sentences(str(outcome.error), outcome.error.hint) if outcome.error else ""


def format_duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def dump_results(results: AddResults) -> AddShape:
    return {
        "added": list(map(dump_outcome, results.select(AddStatus.ADDED))),
        "unchanged": list(map(dump_outcome, results.select(AddStatus.UNCHANGED))),
        "accepted": list(map(dump_outcome, results.select(AddStatus.ACCEPTED))),
        "failed": list(map(dump_outcome, results.select(AddStatus.FAILED))),
        "skipped": {"unsupported": dict(results.unsupported), "empty": results.empty},
        "not_begun": results.not_begun,
        "interrupted": results.interrupted,
    }


def dump_outcome(outcome: AddOutcome) -> OutcomeShape:
    from knowledge.wire import dump_error

    shape: OutcomeShape = {"name": outcome.name, "document_id": outcome.document_id}
    if outcome.job is not None:
        shape["job"] = outcome.job
    if outcome.error is not None:
        shape["error"] = dump_error(outcome.error)["error"]
    return shape


def exit_code_for_results(results: AddResults) -> int:
    if results.interrupted:
        return cli_errors.INTERRUPTED
    return cli_errors.FAILED if results.select(AddStatus.FAILED) else cli_errors.OK


class AddStatus(StrEnum):
    ADDED = "added"
    UNCHANGED = "unchanged"
    """A document with the same bytes exists."""
    ACCEPTED = "accepted"
    """Queued, and not processed yet."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AddOutcome:
    name: str
    status: AddStatus
    job: Job | None = None
    error: KnowledgeError | None = None
    document_id: int | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.job.warnings if self.job else ()


@dataclass(slots=True)
class AddResults:
    planned: int = 0
    outcomes: dict[str, AddOutcome] = field(default_factory=dict)
    unsupported: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    interrupted: bool = False

    def record(self, outcome: AddOutcome) -> None:
        self.outcomes[outcome.name] = outcome

    def select(self, status: AddStatus) -> list[AddOutcome]:
        return [outcome for outcome in self.outcomes.values() if outcome.status is status]

    @property
    def not_begun(self) -> int:
        return self.planned - len(self.outcomes)


def outcome_of(name: str, job: Job) -> AddOutcome:
    """Return the outcome of a file from its finished job."""
    if job.status in (JobStatus.COMPLETED, JobStatus.PARTIAL):
        return AddOutcome(name, AddStatus.ADDED, job, document_id=job.document_id)
    return AddOutcome(name, AddStatus.FAILED, job, failure_of(job))


def failure_of(job: Job) -> KnowledgeError:
    """Return the error of a failed or cancelled job."""
    if job.error is None:
        return Cancelled("The job was cancelled", hint=f"Run 'knowledge jobs retry {job.id}' to start it again.")
    return load_job_error(job.error)
