"""`knowledge remove`: takes documents out, for good."""

from __future__ import annotations

import click

from knowledge.engine.api import Engine
from knowledge.model import Removed
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.confirm import confirm
from knowledge.surfaces.cli.find_document import find_documents
from knowledge.surfaces.cli.output.screen import count, print_json, size
from knowledge.surfaces.cli.session import Session


@click.command(
    epilog=examples("knowledge remove 12", "knowledge remove 12 13 14 --yes", "knowledge remove --everything")
)
@click.argument("documents", nargs=-1, metavar="[DOCUMENT]...")
@click.option("--everything", is_flag=True, help="Every document that there is.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
@pass_session
def remove(session: Session, documents: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Remove documents from search, index and disk.

    DOCUMENT is a number, a UUID, the path that it came from, or its exact title.
    """
    if bool(documents) == everything:
        raise click.UsageError("Name the documents, or say --everything.")

    async def work(engine: Engine) -> Removed:
        return await (remove_everything(engine, yes) if everything else remove_these(engine, documents, yes))

    removed = session.run(work)
    if session.as_json:
        from knowledge.wire import dump_removed

        print_json(dump_removed(removed))
        return
    passages = count(removed.chunks, "passage")
    click.echo(f"Removed {count(removed.documents, 'document')}, {passages}, {size(removed.bytes_freed)}.")


async def remove_these(engine: Engine, texts: tuple[str, ...], yes: bool) -> Removed:
    found = await find_documents(engine, texts)
    names = ", ".join(f"'{document.title}'" for document in found[:3]) + (", …" if len(found) > 3 else "")
    confirm(f"Remove {count(len(found), 'document')} ({names}) for good?", yes)
    parts = [await engine.remove(document.id) for document in found]
    return Removed(
        sum(part.documents for part in parts),
        sum(part.chunks for part in parts),
        sum(part.bytes_freed for part in parts),
    )


async def remove_everything(engine: Engine, yes: bool) -> Removed:
    status = await engine.status()
    confirm(f"Remove all {count(status.documents, 'document')} for good?", yes)
    return await engine.clear()
