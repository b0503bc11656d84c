"""`knowledge note`: a few words worth keeping."""

from __future__ import annotations

import sys

import click

from knowledge.engine.api import Engine
from knowledge.errors import Duplicate, InvalidParameter
from knowledge.model import Document
from knowledge.surfaces.cli.add.document_options import About, about_options
from knowledge.surfaces.cli.add.outcomes import failure_of
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.find_document import find_document
from knowledge.surfaces.cli.output.screen import clean, print_json, say
from knowledge.surfaces.cli.session import Session
from knowledge.surfaces.cli.wait import end_of


@click.command(
    epilog=examples(
        'knowledge note "The office kettle is descaled on the first Monday of the month."',
        "knowledge note --title 'Kettle' --tag kitchen < kettle.txt",
        "knowledge note --update 12 'It is descaled every Friday.'",
    )
)
@click.argument("text", nargs=-1, metavar="[TEXT]...")
@about_options
@click.option("--update", metavar="DOC", help="Give this note another text instead of adding one.")
@common
@pass_session
def note(session: Session, text: tuple[str, ...], about: About, update: str | None) -> None:
    """Keep TEXT, or what standard input says, as a note."""
    if update is not None and about != About():
        raise click.UsageError("--update changes the text alone; 'knowledge tag' and 'knowledge move' do the rest.")
    words = read_words(text)

    async def work(engine: Engine) -> Document:
        if update is not None:
            return await engine.update_note((await find_document(engine, update)).id, words)
        return await add_note(engine, about, words)

    kept = session.run(work)
    if session.as_json:
        from knowledge.wire import dump_document

        print_json(dump_document(kept))
    else:
        click.echo(clean(f"Kept as document {kept.id}: {kept.title}"))


def read_words(text: tuple[str, ...]) -> str:
    if not text and sys.stdin.isatty():
        say("Write the note; Ctrl-D ends it.")
    words = " ".join(text) if text and text != ("-",) else sys.stdin.read()
    if not words.strip():
        raise InvalidParameter("A note needs a text", hint="Write it after the command, or send it to standard input.")
    return words


async def add_note(engine: Engine, about: About, words: str) -> Document:
    try:
        job = await engine.add(about.note(words))
    except Duplicate as error:
        return await engine.document(int(str(error.details["document_id"])))
    ended = await end_of(engine, job)
    if ended.error is not None or ended.document_id is None:
        raise failure_of(ended)
    return await engine.document(ended.document_id)
