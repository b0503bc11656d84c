"""`knowledge note`: adds or updates a note."""

from __future__ import annotations

import sys

import click

from knowledge.engine.api import Engine
from knowledge.errors import Duplicate, InvalidParameter
from knowledge.model import Document
from knowledge.surfaces.cli.add.document_options import DocumentOptions, with_document_options
from knowledge.surfaces.cli.add.outcomes import failure_of
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import find_document
from knowledge.surfaces.cli.output.terminal import print_json, print_message, sanitize_text
from knowledge.surfaces.cli.session import CliSession
from knowledge.surfaces.waiting import wait_for_end


@click.command(
    epilog=format_examples(
        'knowledge note "The office kettle is descaled on the first Monday of the month."',
        "knowledge note --title 'Kettle' --tag kitchen < kettle.txt",
        "knowledge note --update 12 'It is descaled every Friday.'",
    )
)
@click.argument("text", nargs=-1, metavar="[TEXT]...")
@with_document_options
@click.option("--update", metavar="DOC", help="Replace the text of this note instead of adding one.")
@common_options
@pass_session
def note(session: CliSession, text: tuple[str, ...], about: DocumentOptions, update: str | None) -> None:
    """Add TEXT or standard input as a note."""
    if update is not None and about != DocumentOptions():
        raise click.UsageError(
            "--update only changes the text; use 'knowledge tag' and 'knowledge move' for tags and collection."
        )
    note_text = read_note_text(text)

    async def work(engine: Engine) -> Document:
        if update is not None:
            return await engine.update_note((await find_document(engine, update)).id, note_text)
        return await add_note(engine, about, note_text)

    kept = session.run(work)
    if session.as_json:
        from knowledge.wire import DocumentShape

        print_json(DocumentShape.from_document(kept))
    else:
        click.echo(sanitize_text(f"Saved as document {kept.id}: {kept.title}"))


def read_note_text(text: tuple[str, ...]) -> str:
    if not text and sys.stdin.isatty():
        print_message("Type the note and end it with Ctrl-D.")
    note_text = " ".join(text) if text and text != ("-",) else sys.stdin.read()
    if not note_text.strip():
        raise InvalidParameter("The note is empty", hint="Pass the text as argument or on standard input.")
    return note_text


async def add_note(engine: Engine, about: DocumentOptions, text: str) -> Document:
    try:
        job = await engine.add(about.new_note(text))
    except Duplicate as error:
        return await engine.document(int(str(error.details["document_id"])))
    ended = await wait_for_end(engine, job)
    if ended.error is not None or ended.document_id is None:
        raise failure_of(ended)
    return await engine.document(ended.document_id)
