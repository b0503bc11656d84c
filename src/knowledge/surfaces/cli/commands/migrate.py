"""`knowledge migrate`: move all data between a folder with SQLite and PostgreSQL."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.terminal import (
    format_size,
    make_stderr_console,
    pluralize,
    print_json,
    sanitize_text,
)
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from rich.progress import Progress

    from knowledge.config import Settings
    from knowledge.engine.moving.move import MoveReport
    from knowledge.engine.moving.places import Place
    from knowledge.engine.moving.progress import MoveProgress

LINE_SECONDS = 10.0
"""Time between two lines of progress where there is no terminal."""


@click.command(
    epilog=format_examples(
        "knowledge migrate --to postgresql://knowledge@db.example/knowledge --dry-run",
        "knowledge migrate --to postgresql://knowledge@db.example/knowledge --originals /mnt/originals",
        "knowledge migrate --to folder:/var/lib/knowledge",
    )
)
@click.option("--to", required=True, metavar="URL|folder:PATH", help="Database URL of PostgreSQL, or an empty folder.")
@click.option(
    "--originals",
    metavar="PATH|s3://…",
    help="Where the originals go; without it they stay where they are. Only with a database URL.",
)
@click.option("--dry-run", is_flag=True, help="Check everything and say how long it takes; change nothing.")
@common_options
@pass_session
def migrate(session: CliSession, to: str, originals: str | None, dry_run: bool) -> None:
    """Move all data to PostgreSQL, or back into a folder.

    Stop all servers first. Ids, vectors, accounts, keys and sessions are kept, and nothing is embedded again. If the
    command is interrupted, run it again: it goes on where it stopped. At the end both sides are compared, and the old
    place refuses to start. Leave the password out of the URL and set PGPASSWORD, so that no other user of this
    machine can read it.
    """
    from knowledge.engine.moving.move import move_data, plan_move
    from knowledge.engine.moving.places import parse_target

    source = find_source(session.settings)
    target = parse_target(to, originals, source)
    if dry_run:
        report = plan_move(source, target)
    else:
        with show_move(quiet=session.as_json) as progress:
            report = move_data(source, target, progress)
    if session.as_json:
        print_json({"dry_run": dry_run, **report.to_json()})
    else:
        click.echo(sanitize_text(format_report(report, dry_run)))


def find_source(settings: Settings) -> Place:
    """Return where the data of the settings is."""
    from knowledge.engine.moving.places import Place

    url = settings.database_url.get_secret_value() if settings.database_url else None
    return Place(settings.data, url, str(settings.originals) if settings.originals else "")


def format_report(report: MoveReport, dry_run: bool) -> str:
    """Say what was moved or would be moved, and what to do next."""
    if report.already_moved:
        return f"Everything was already moved from {report.source} to {report.target}. Nothing was copied."
    documents = pluralize(report.rows.get("documents", 0), "document")
    passages = pluralize(report.rows.get("chunks", 0), "passage")
    kept = "stay in" if not report.copied_originals else f"({format_size(report.copied_bytes)} to copy) go to"
    if dry_run:
        return (
            f"Would move {documents} with {passages} ({sum(report.rows.values()):,} rows) from {report.source} to"
            f" {report.target}. {pluralize(report.original_count, 'original')} {kept} {report.originals}."
            f" This takes about {format_seconds(report.seconds)}. Nothing was changed."
        )
    return (
        f"Moved {documents} with {passages} from {report.source} to {report.target} in"
        f" {format_seconds(report.seconds)}: copied {report.copied_rows:,} rows and"
        f" {pluralize(report.copied_originals, 'original')}, and compared all of them. {_name_next_step(report)}"
    )


def _name_next_step(report: MoveReport) -> str:
    if report.target.startswith("the folder"):
        return "Unset KNOWLEDGE_DATABASE_URL, set KNOWLEDGE_DATA to this folder, and start the server."
    return (
        f"Set KNOWLEDGE_DATABASE_URL to this database, let the originals be in {report.originals}, and start the"
        " servers; the old folder refuses to start without it."
    )


def format_seconds(seconds: float) -> str:
    if seconds < 60:
        return pluralize(max(1, round(seconds)), "second")
    minutes = round(seconds / 60)
    return pluralize(minutes, "minute") if minutes < 120 else f"{seconds / 3600:.1f} hours"


@contextmanager
def show_move(*, quiet: bool) -> Iterator[MoveProgress]:
    """Show a bar for each step on a terminal, otherwise lines on stderr."""
    from knowledge.engine.moving.progress import SilentProgress

    if sys.stderr.isatty():
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(24),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(compact=True),
        )
        with progress.Progress(*columns, console=make_stderr_console(), transient=True) as bars:
            yield StepBars(bars)
    else:
        yield SilentProgress() if quiet else StepLines()


class StepBars:
    """A bar for each step."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    def start(self, step: str, total: int, unit: str) -> None:  # noqa: ARG002 - a bar shows the share
        self._task = self._bars.add_task(step, total=max(total, 1))

    def advance(self, done: int) -> None:
        self._bars.advance(self._task, done)


class StepLines:
    """A line when a step begins, and every few seconds."""

    def start(self, step: str, total: int, unit: str) -> None:
        self._step, self._total, self._unit, self._done = step, total, unit, 0
        self._next = time.monotonic() + LINE_SECONDS
        click.echo(f"{step}: {self._format(total)}", err=True)

    def advance(self, done: int) -> None:
        self._done += done
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            click.echo(f"{self._step}: {self._format(self._done)} of {self._format(self._total)}", err=True)

    def _format(self, number: int) -> str:
        return format_size(number) if self._unit == "bytes" else f"{number:,} {self._unit}"
