"""`knowledge backup` and `knowledge restore`: write all data to one archive, and restore it."""

from __future__ import annotations

import io
import os
import secrets
import sys
from pathlib import Path
from typing import BinaryIO, cast

import click

from knowledge.engine.api import Engine
from knowledge.errors import FileNotFound, InvalidParameter, NotNow
from knowledge.filesystem import file_modes
from knowledge.model import Original
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.move_progress import find_place, show_move
from knowledge.surfaces.cli.output.terminal import format_size, print_json, sanitize_text
from knowledge.surfaces.cli.session import CliSession

STANDARD_STREAM = "-"


@click.command(
    epilog=format_examples(
        "knowledge backup",
        "knowledge backup /mnt/safe/knowledge.tar",
        "knowledge backup --encrypt /mnt/safe/knowledge.tar.age",
        "knowledge backup - | gzip > knowledge.tar.gz",
    )
)
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--encrypt", is_flag=True, help="Encrypt with a passphrase, as an age file.")
@common_options
@pass_session
def backup(session: CliSession, file: str | None, force: bool, encrypt: bool) -> None:
    """Write a consistent backup of all data to FILE; the server can keep running.

    With --encrypt the passphrase is that of KNOWLEDGE_BACKUP_PASSPHRASE or KNOWLEDGE_BACKUP_PASSPHRASE_FILE; without
    them it is asked for.
    """
    passphrase = find_passphrase(session, confirm=True) if encrypt else None
    if file == STANDARD_STREAM:
        session.run(lambda engine: write_backup_to_stdout(engine, passphrase))
        return
    target, written = session.run(lambda engine: write_backup_file(engine, file, force, passphrase))
    if session.as_json:
        print_json({"file": str(target), "size_bytes": written})
    else:
        click.echo(
            sanitize_text(
                f"Wrote {target} ({format_size(written)}). Restore it with 'knowledge restore {target} --data DIR'."
            )
        )


async def write_backup_file(engine: Engine, file: str | None, force: bool, passphrase: str | None) -> tuple[Path, int]:
    archive = await engine.backup()
    filename = archive.filename if passphrase is None else f"{archive.filename}.age"
    target = Path(file or filename).expanduser().absolute()
    if target.is_dir():
        target /= filename
    if target.exists() and not force:
        raise NotNow(f"{target} already exists", hint="Choose another name, or pass --force to overwrite it.")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        file_modes.sweep_drafts(target.parent, f".{target.name}.*")
        with file_modes.open_new_file(draft) as file_out:
            await write_pieces(archive, file_out, passphrase)
            file_out.flush()
            os.fsync(file_out.fileno())
        written = draft.stat().st_size
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target, written


async def write_pieces(archive: Original, file: BinaryIO, passphrase: str | None) -> None:
    if passphrase is None:
        async for piece in archive.pieces:
            file.write(piece)
        return
    from knowledge.engine.maintenance.encryption import EncryptingWriter

    writer = EncryptingWriter(file, passphrase)
    async for piece in archive.pieces:
        writer.write(piece)
    writer.finish()


def find_passphrase(session: CliSession, *, confirm: bool) -> str:
    """Return the passphrase of the settings, or ask for it."""
    given = session.settings.read_backup_passphrase()
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise InvalidParameter(
            "The passphrase of the backup is missing",
            hint="Set KNOWLEDGE_BACKUP_PASSPHRASE_FILE or KNOWLEDGE_BACKUP_PASSPHRASE.",
            parameter="passphrase",
        )
    return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True))


def open_archive(session: CliSession, file: BinaryIO) -> BinaryIO:
    """Return the archive of a file, decrypted if it is encrypted."""
    from knowledge.engine.maintenance.encryption import is_encrypted, open_encrypted

    peekable = cast(io.BufferedReader, file)
    if not is_encrypted(peekable.peek(64)):
        return file
    return open_encrypted(file, find_passphrase(session, confirm=False))


async def write_backup_to_stdout(engine: Engine, passphrase: str | None) -> None:
    archive = await engine.backup()
    await write_pieces(archive, sys.stdout.buffer, passphrase)
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

    The passphrase of an encrypted backup is taken from the settings or asked for. A backup of SQLite can be restored
    into PostgreSQL, and the other way round. It does not contain the index; the next start rebuilds it.
    """
    from knowledge.engine.moving.restore import restore_into

    place = find_place(session.settings)
    with show_move(quiet=session.as_json) as progress:
        if file == STANDARD_STREAM:
            manifest = restore_into(open_archive(session, sys.stdin.buffer), place, progress)
        else:
            path = Path(file).expanduser()
            if not path.is_file():
                raise FileNotFound(f"The file {path} does not exist", hint="Check the path.", file_path=str(path))
            with path.open("rb") as archive:
                manifest = restore_into(open_archive(session, archive), place, progress)
    target = str(place.data) if place.database_url is None else place.describe()
    if session.as_json:
        print_json({"data": target, "backup": manifest})
    else:
        click.echo(
            sanitize_text(
                f"Restored the backup of {manifest.get('made_at')} to {target}. Check it with 'knowledge verify'."
            )
        )
