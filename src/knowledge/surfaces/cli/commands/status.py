"""`knowledge status` and `verify`: how the knowledge base is, and what does not agree."""

from __future__ import annotations

import click

from knowledge.model import EngineStatus, ModelStatus, NextModel
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.add.outcomes import format_duration
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.terminal import (
    format_size,
    format_time,
    pluralize,
    print_facts,
    print_json,
    print_message,
    sanitize_text,
)
from knowledge.surfaces.cli.session import NO_MODEL, CliSession


@click.command(epilog=format_examples("knowledge status", "knowledge status --json | jq .queue"))
@common_options
@pass_session
def status(session: CliSession) -> None:
    """Show how much is in it, what is going on, and what is wrong."""
    found = session.run(lambda engine: engine.status())
    if session.as_json:
        from knowledge.wire import StatusShape

        print_json(StatusShape.from_status(found))
    else:
        print_status(found)


def print_status(found: EngineStatus) -> None:
    print_facts(
        (
            ("health", found.health),
            ("documents", found.documents),
            ("passages", found.chunks),
            ("collections", found.collections),
            ("jobs", f"{found.queued} queued, {found.processing} running, {found.failed} failed"),
            ("model", format_model(found.model)),
            ("data", found.data_path),
            ("on disk", format_disk_use(found)),
            ("changed", format_time(found.last_change)),
            ("version", f"{found.version}, up for {format_duration(found.uptime_seconds)}"),
        )
    )
    for issue in found.issues:
        print_message(issue)


def format_model(model: ModelStatus) -> str:
    if model.name == NO_MODEL:
        return "none; search goes by words alone"
    if model.loaded:
        said = f"{model.name}, {model.dimension} dimensions, {model.device}"
    else:
        said = f"{model.name}, {model.error or 'still loading'}"
    return said if model.next is None else f"{said}; {format_next_model(model.next)}"


def format_next_model(coming: NextModel) -> str:
    left = "" if coming.left is None else f", {pluralize(coming.left, 'passage')} left"
    return f"{coming.name} follows{left}"


def format_disk_use(found: EngineStatus) -> str:
    sizes = {"database": found.database_bytes, "files": found.files_bytes, "index": found.index_bytes}
    return ", ".join(f"{format_size(size)} {name}" for name, size in sizes.items())


@click.command(epilog=format_examples("knowledge verify && echo clean", "knowledge verify --json"))
@common_options
@pass_session
@click.pass_context
def verify(context: click.Context, session: CliSession) -> None:
    """Check the database, the passages, the index and the files, and name every difference.

    SQLite's integrity check is run, each passage is compared with its checksum and each original with its hash. It
    reads everything and may take minutes; others go on working. The exit code is 1 if there is a difference.
    """
    findings = session.run(lambda engine: engine.verify())
    if session.as_json:
        from knowledge.wire import FindingsShape

        print_json(FindingsShape.from_findings(findings))
    elif not findings:
        click.echo("Everything agrees: store, index and files.")
    else:
        for finding in findings:
            click.echo(sanitize_text(f"{finding.part}: {finding.message}"))
        print_message(f"{pluralize(len(findings), 'difference')}. What to do:")
        for hint in dict.fromkeys(finding.hint for finding in findings if finding.hint):
            print_message(f"  {hint}")
    context.exit(cli_errors.FAILED if findings else cli_errors.OK)
