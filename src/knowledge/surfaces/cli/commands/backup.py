"""`knowledge backup` and `knowledge restore`: everything in one file, and out of it again."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import click

from knowledge.engine.api import Engine
from knowledge.errors import FileNotFound, NotNow
from knowledge.store import file_modes
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.output.screen import clean, print_json, size
from knowledge.surfaces.cli.session import Session

STDOUT = "-"


@click.command(
    epilog=examples(
        "knowledge backup",
        "knowledge backup /mnt/safe/knowledge.tar",
        "knowledge backup - | gzip > knowledge.tar.gz",
    )
)
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@common
@pass_session
def backup(session: Session, file: str | None, force: bool) -> None:
    """Write everything, as of one moment, into FILE; others go on working."""
    if file == STDOUT:
        session.run(to_standard_output)
        return
    target, written = session.run(lambda engine: to_file(engine, file, force))
    if session.as_json:
        print_json({"file": str(target), "size_bytes": written})
    else:
        click.echo(
            clean(f"Wrote {target} ({size(written)}). 'knowledge restore {target} --data DIR' lays it out again.")
        )


async def to_file(engine: Engine, file: str | None, force: bool) -> tuple[Path, int]:
    archive = await engine.backup()
    target = Path(file or archive.filename).expanduser().absolute()
    if target.is_dir():
        target /= archive.filename
    if target.exists() and not force:
        raise NotNow(f"{target} is there already", hint="Choose another name, or add --force.")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        file_modes.sweep_drafts(target.parent, f".{target.name}.*")
        with file_modes.open_new(draft) as file_out:
            async for piece in archive.pieces:
                file_out.write(piece)
            file_out.flush()
            os.fsync(file_out.fileno())
        written = draft.stat().st_size
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target, written


async def to_standard_output(engine: Engine) -> None:
    archive = await engine.backup()
    async for piece in archive.pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


@click.command(
    epilog=examples(
        "knowledge restore knowledge.tar --data ~/restored",
        "gunzip -c knowledge.tar.gz | knowledge restore - --data ~/restored",
    )
)
@click.argument("file", metavar="FILE|-")
@common
@pass_session
def restore(session: Session, file: str) -> None:
    """Lay a backup out in an empty data folder.

    The index is not in it; the next start builds it.
    """
    from knowledge.engine.backup import restore as lay_out

    data = session.settings.data
    if file == STDOUT:
        manifest = lay_out(sys.stdin.buffer, data)
    else:
        path = Path(file).expanduser()
        if not path.is_file():
            raise FileNotFound(f"There is no file {path}", hint="Check the path.", file_path=str(path))
        with path.open("rb") as archive:
            manifest = lay_out(archive, data)
    if session.as_json:
        print_json({"data": str(data), "backup": manifest})
    else:
        click.echo(clean(f"Restored the backup of {manifest.get('made_at')} to {data}. 'knowledge verify' proves it."))
