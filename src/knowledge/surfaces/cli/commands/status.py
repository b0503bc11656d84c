"""`knowledge status` and `verify`: how the knowledge base is, and what does not agree."""

from __future__ import annotations

import click

from knowledge.model import ModelStatus, NextModel, Status
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.add.summary import duration
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.output.screen import clean, count, moment, print_facts, print_json, say, size
from knowledge.surfaces.cli.readiness import NO_MODEL
from knowledge.surfaces.cli.session import Session


@click.command(epilog=examples("knowledge status", "knowledge status --json | jq .queue"))
@common
@pass_session
def status(session: Session) -> None:
    """Show how much is in it, what is going on, and what is wrong."""
    found = session.run(lambda engine: engine.status())
    if session.as_json:
        from knowledge.wire import dump_status

        print_json(dump_status(found))
    else:
        print_status(found)


def print_status(found: Status) -> None:
    print_facts(
        (
            ("health", found.health),
            ("documents", found.documents),
            ("passages", found.chunks),
            ("collections", found.collections),
            ("jobs", f"{found.queued} queued, {found.processing} running, {found.failed} failed"),
            ("model", model_line(found.model)),
            ("data", found.data_path),
            ("on disk", disk_line(found)),
            ("changed", moment(found.last_change)),
            ("version", f"{found.version}, up for {duration(found.uptime_seconds)}"),
        )
    )
    for issue in found.issues:
        say(issue)


def model_line(model: ModelStatus) -> str:
    if model.name == NO_MODEL:
        return "none; search goes by words alone"
    if model.loaded:
        said = f"{model.name}, {model.dimension} dimensions, {model.device}"
    else:
        said = f"{model.name}, {model.error or 'still loading'}"
    return said if model.next is None else f"{said}; {next_line(model.next)}"


def next_line(coming: NextModel) -> str:
    left = "" if coming.left is None else f", {count(coming.left, 'passage')} left"
    return f"{coming.name} follows{left}"


def disk_line(found: Status) -> str:
    return f"{size(found.database_bytes)} database, {size(found.files_bytes)} files, {size(found.index_bytes)} index"


@click.command(epilog=examples("knowledge verify && echo clean", "knowledge verify --json"))
@common
@pass_session
@click.pass_context
def verify(context: click.Context, session: Session) -> None:
    """Check the database, the passages, the index and the files, and name every difference.

    SQLite's integrity check is run, each passage is compared with its checksum and each original with its hash. It
    reads everything and may take minutes; others go on working. The exit code is 1 if there is a difference.
    """
    findings = session.run(lambda engine: engine.verify())
    if session.as_json:
        from knowledge.wire import dump_findings

        print_json(dump_findings(findings))
    elif not findings:
        click.echo("Everything agrees: store, index and files.")
    else:
        for finding in findings:
            click.echo(clean(f"{finding.part}: {finding.message}"))
        say(f"{count(len(findings), 'difference')}. What to do:")
        for hint in dict.fromkeys(finding.hint for finding in findings if finding.hint):
            say(f"  {hint}")
    context.exit(cli_errors.FAILED if findings else cli_errors.OK)
