"""`knowledge status` and `knowledge verify`: print the status and check consistency."""

from __future__ import annotations

import click

from knowledge.model import EngineStatus, ModelStatus, NextModel, ProcessStatus, ServerStatus
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
from knowledge.surfaces.cli.session import CliSession
from knowledge.surfaces.waiting import NO_MODEL


@click.command(epilog=format_examples("knowledge status", "knowledge status --json | jq .queue"))
@common_options
@pass_session
def status(session: CliSession) -> None:
    """Show the number of documents, jobs, the model, disk use and problems."""
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
            ("database", found.database),
            ("on disk", format_disk_use(found)),
            ("memory", format_memory_use(found.processes)),
            ("changed", format_time(found.last_change)),
            ("version", f"{found.version}, up for {format_duration(found.uptime_seconds)}"),
        )
    )
    for server in found.servers:
        print_message(format_server(server))
    for issue in found.issues:
        print_message(issue)


def format_server(server: ServerStatus) -> str:
    """Describe one of the servers of a database in a line."""
    if not server.live:
        state = f"last seen {format_time(server.last_seen)}"
    elif server.role == "workers-only":
        state = "runs jobs"
    else:
        state = f"{'ready' if server.ready else 'not ready'}, {pluralize(server.lag, 'change')} behind"
    return f"server {server.id} at {sanitize_text(server.address)}, {server.role}, version {server.version}: {state}"


def format_model(model: ModelStatus) -> str:
    if model.name == NO_MODEL:
        return "none; full-text search only"
    if model.loaded:
        text = f"{model.name}, {model.dimension} dimensions, {model.arithmetic or model.device}"
    else:
        text = f"{model.name}, {model.error or 'loading'}"
    return text if model.next is None else f"{text}; {format_next_model(model.next)}"


def format_next_model(coming: NextModel) -> str:
    left = "" if coming.left is None else f", {pluralize(coming.left, 'passage')} left"
    return f"switching to {coming.name}{left}"


def format_disk_use(found: EngineStatus) -> str:
    sizes = {"database": found.database_bytes, "files": found.files_bytes, "index": found.index_bytes}
    return ", ".join(f"{format_size(size)} {name}" for name, size in sizes.items())


def format_memory_use(processes: ProcessStatus) -> str:
    children = pluralize(processes.children, "child process", "child processes")
    return f"{format_size(processes.server_bytes)} server, {format_size(processes.children_bytes)} in {children}"


@click.command(epilog=format_examples("knowledge verify && echo clean", "knowledge verify --json"))
@common_options
@pass_session
@click.pass_context
def verify(context: click.Context, session: CliSession) -> None:
    """Check that database, passages, index and files are consistent, and print every problem.

    Checks the integrity of the database, compares each passage with its checksum and each original with its hash. This
    reads all data and may take minutes; the server can keep running. The exit code is 1 if there is a problem.
    """
    findings = session.run(lambda engine: engine.verify())
    if session.as_json:
        from knowledge.wire import FindingsShape

        print_json(FindingsShape.from_findings(findings))
    elif not findings:
        click.echo("No problems found: database, index and files are consistent.")
    else:
        for finding in findings:
            click.echo(sanitize_text(f"{finding.part}: {finding.message}"))
        print_message(f"Found {pluralize(len(findings), 'problem')}. What to do:")
        for hint in dict.fromkeys(finding.hint for finding in findings if finding.hint):
            print_message(f"  {hint}")
    context.exit(cli_errors.FAILED if findings else cli_errors.OK)
