"""The end of `add`: what is there now, what was left out, and for each failure what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.add.outcomes import Fate, Outcome, Tally
from knowledge.surfaces.cli.errors import sentence
from knowledge.surfaces.cli.output.screen import clean, count

if TYPE_CHECKING:
    from knowledge.surfaces.cli.output.json_shapes import AddShape, OutcomeShape

GO_ON = "Run the same command again to go on; what is already there is left alone."


def print_summary(tally: Tally, seconds: float) -> None:
    for line in lines(tally, seconds):
        click.echo(clean(line))


def lines(tally: Tally, seconds: float) -> Iterator[str]:
    added, unchanged, failed = tally.of(Fate.ADDED), tally.of(Fate.UNCHANGED), tally.of(Fate.FAILED)
    accepted = tally.of(Fate.ACCEPTED)
    if added:
        passages = sum(outcome.job.chunk_count for outcome in added if outcome.job)
        yield f"Added {count(len(added), 'document')} ({count(passages, 'passage')}) in {duration(seconds)}."
    if unchanged:
        yield f"{count(len(unchanged), 'file is', 'files are')} already there, unchanged."
    if accepted:
        kept = count(len(accepted), "file is", "files are")
        yield f"{kept} accepted and kept; 'knowledge jobs --follow' shows how far."
    yield from left_out(tally)
    if not tally.outcomes and not tally.interrupted:
        yield "There was nothing to add."
    for outcome in added:
        yield from (f"  {outcome.name}: {warning}" for warning in outcome.warnings)
    if failed:
        yield f"{count(len(failed), 'file')} failed:"
        yield from (f"  {outcome.name}: {reason(outcome)}" for outcome in failed)
    if tally.interrupted:
        yield f"Stopped. {count(tally.not_begun, 'file was', 'files were')} not begun. {GO_ON}"


def left_out(tally: Tally) -> Iterator[str]:
    if tally.unsupported:
        kinds = ", ".join(f"{suffix} {number}" for suffix, number in tally.unsupported.most_common(8))
        yield f"Skipped {count(tally.unsupported.total(), 'file')} of kinds that are not read: {kinds}."
    if tally.empty:
        yield f"Skipped {count(tally.empty, 'empty file')}."


def reason(outcome: Outcome) -> str:
    return sentence(str(outcome.error), outcome.error.hint) if outcome.error else ""


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def dump_tally(tally: Tally) -> AddShape:
    return {
        "added": list(map(dump_outcome, tally.of(Fate.ADDED))),
        "unchanged": list(map(dump_outcome, tally.of(Fate.UNCHANGED))),
        "accepted": list(map(dump_outcome, tally.of(Fate.ACCEPTED))),
        "failed": list(map(dump_outcome, tally.of(Fate.FAILED))),
        "skipped": {"unsupported": dict(tally.unsupported), "empty": tally.empty},
        "not_begun": tally.not_begun,
        "interrupted": tally.interrupted,
    }


def dump_outcome(outcome: Outcome) -> OutcomeShape:
    from knowledge.wire import dump_error, dump_job

    shape: OutcomeShape = {"name": outcome.name, "document_id": outcome.document_id}
    if outcome.job is not None:
        shape["job"] = dump_job(outcome.job)
    if outcome.error is not None:
        shape["error"] = dump_error(outcome.error)["error"]
    return shape


def exit_code(tally: Tally) -> int:
    if tally.interrupted:
        return cli_errors.INTERRUPTED
    return cli_errors.FAILED if tally.of(Fate.FAILED) else cli_errors.OK
