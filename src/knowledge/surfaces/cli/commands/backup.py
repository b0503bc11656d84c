"""`knowledge backup` and `knowledge restore`: write all data to one archive, and restore it."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import click

from knowledge.engine.api import Engine
from knowledge.errors import FileNotFound, NotNow
from knowledge.filesystem import file_modes
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.move_progress import find_place, show_move
from knowledge.surfaces.cli.output.terminal import format_size, print_json, sanitize_text
from knowledge.surfaces.cli.session import CliSession

STANDARD_STREAM = "-"


@click.command(
    epilog=format_examples(
        "knowledge backup",
        "knowledge backup /mnt/safe/knowledge.tar",
        "knowledge backup - | gzip > knowledge.tar.gz",
    )
)
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@common_options
@pass_session
def backup(session: CliSession, file: str | None, force: bool) -> None:
    """Write a consistent backup of all data to FILE; the server can keep running."""
    if file == STANDARD_STREAM:
        session.run(write_backup_to_stdout)
        return
    target, written = session.run(lambda engine: write_backup_file(engine, file, force))
    if session.as_json:
        print_json({"file": str(target), "size_bytes": written})
    else:
        click.echo(
            sanitize_text(
                f"Wrote {target} ({format_size(written)}). Restore it with 'knowledge restore {target} --data DIR'."
            )
        )


async def write_backup_file(engine: Engine, file: str | None, force: bool) -> tuple[Path, int]:
    archive = await engine.backup()
    target = Path(file or archive.filename).expanduser().absolute()
    if target.is_dir():
        target /= archive.filename
    if target.exists() and not force:
        raise NotNow(f"{target} already exists", hint="Choose another name, or pass --force to overwrite it.")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        file_modes.sweep_drafts(target.parent, f".{target.name}.*")
        with file_modes.open_new_file(draft) as file_out:
            async for piece in archive.pieces:
                file_out.write(piece)
            file_out.flush()
            os.fsync(file_out.fileno())
        written = draft.stat().st_size
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target, written


async def write_backup_to_stdout(engine: Engine) -> None:
    archive = await engine.backup()
    async for piece in archive.pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


@click.command(
    epilog=format_examples(
        "knowledge restore knowledge.tar --data ~/restored",
        "gunzip -c knowledge.tar.gz | knowledge restore - --data ~/restored",
    )
)
@click.argument("file", metavar="FILE|-")
@common_options
@pass_session
def restore(session: CliSession, file: str) -> None:
    """Restore a backup into an empty data folder, or into the empty database of KNOWLEDGE_DATABASE_URL.

    A backup of SQLite can be restored into PostgreSQL, and the other way round. It does not contain the index; the next
    start rebuilds it.
    """
    from knowledge.engine.moving.restore import restore_into

    place = find_place(session.settings)
    with show_move(quiet=session.as_json) as progress:
        if file == STANDARD_STREAM:
            manifest = restore_into(sys.stdin.buffer, place, progress)
        else:
            path = Path(file).expanduser()
            if not path.is_file():
                raise FileNotFound(f"The file {path} does not exist", hint="Check the path.", file_path=str(path))
            with path.open("rb") as archive:
                manifest = restore_into(archive, place, progress)
    target = str(place.data) if place.database_url is None else place.describe()
    if session.as_json:
        print_json({"data": target, "backup": manifest})
    else:
        click.echo(
            sanitize_text(
                f"Restored the backup of {manifest.get('made_at')} to {target}. Check it with 'knowledge verify'."
            )
        )
