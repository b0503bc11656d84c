"""`knowledge migrate`: move all data between a folder with SQLite and PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.move_progress import find_place, show_move
from knowledge.surfaces.cli.output.terminal import (
    format_size,
    pluralize,
    print_json,
    sanitize_text,
)
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from knowledge.engine.moving.move import MoveReport


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

    source = find_place(session.settings)
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
