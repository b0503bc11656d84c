"""`knowledge note`: a few words worth keeping."""

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
from knowledge.surfaces.cli.session import CliSession, wait_for_end


@click.command(
    epilog=format_examples(
        'knowledge note "The office kettle is descaled on the first Monday of the month."',
        "knowledge note --title 'Kettle' --tag kitchen < kettle.txt",
        "knowledge note --update 12 'It is descaled every Friday.'",
    )
)
@click.argument("text", nargs=-1, metavar="[TEXT]...")
@with_document_options
@click.option("--update", metavar="DOC", help="Give this note another text instead of adding one.")
@common_options
@pass_session
def note(session: CliSession, text: tuple[str, ...], about: DocumentOptions, update: str | None) -> None:
    """Keep TEXT, or what standard input says, as a note."""
    if update is not None and about != DocumentOptions():
        raise click.UsageError("--update changes the text alone; 'knowledge tag' and 'knowledge move' do the rest.")
    words = read_note_text(text)

    async def work(engine: Engine) -> Document:
        if update is not None:
            return await engine.update_note((await find_document(engine, update)).id, words)
        return await add_note(engine, about, words)

    kept = session.run(work)
    if session.as_json:
        from knowledge.wire import DocumentShape

        print_json(DocumentShape.from_document(kept))
    else:
        click.echo(sanitize_text(f"Kept as document {kept.id}: {kept.title}"))


def read_note_text(text: tuple[str, ...]) -> str:
    if not text and sys.stdin.isatty():
        print_message("Write the note; Ctrl-D ends it.")
    words = " ".join(text) if text and text != ("-",) else sys.stdin.read()
    if not words.strip():
        raise InvalidParameter("A note needs a text", hint="Write it after the command, or send it to standard input.")
    return words


async def add_note(engine: Engine, about: DocumentOptions, text: str) -> Document:
    try:
        job = await engine.add(about.new_note(text))
    except Duplicate as error:
        return await engine.document(int(str(error.details["document_id"])))
    ended = await wait_for_end(engine, job)
    if ended.error is not None or ended.document_id is None:
        raise failure_of(ended)
    return await engine.document(ended.document_id)
