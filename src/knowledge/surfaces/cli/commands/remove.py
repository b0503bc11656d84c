"""`knowledge remove`: deletes documents permanently."""

from __future__ import annotations

import click

from knowledge.engine.api import Engine
from knowledge.model import RemovalResult
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import find_documents
from knowledge.surfaces.cli.output.terminal import confirm, format_size, pluralize, print_json
from knowledge.surfaces.cli.session import CliSession


@click.command(
    epilog=format_examples("knowledge remove 12", "knowledge remove 12 13 14 --yes", "knowledge remove --everything")
)
@click.argument("documents", nargs=-1, metavar="[DOCUMENT]...")
@click.option("--everything", is_flag=True, help="Remove all documents.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common_options
@pass_session
def remove(session: CliSession, documents: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Remove documents from search, index and disk.

    DOCUMENT is an id, a UUID, the path it was added from, or its exact title.
    """
    if bool(documents) == everything:
        raise click.UsageError("Pass either documents or --everything.")

    async def work(engine: Engine) -> RemovalResult:
        return await (remove_everything(engine, yes) if everything else remove_documents(engine, documents, yes))

    removed = session.run(work)
    if session.as_json:
        print_json(removed)
        return
    passages = pluralize(removed.chunks, "passage")
    click.echo(f"Removed {pluralize(removed.documents, 'document')}, {passages}, {format_size(removed.bytes_freed)}.")


async def remove_documents(engine: Engine, texts: tuple[str, ...], yes: bool) -> RemovalResult:
    found = await find_documents(engine, texts)
    names = ", ".join(f"'{document.title}'" for document in found[:3]) + (", …" if len(found) > 3 else "")
    confirm(f"Remove {pluralize(len(found), 'document')} ({names}) permanently?", yes)
    parts = [await engine.remove(document.id) for document in found]
    return RemovalResult(
        sum(part.documents for part in parts),
        sum(part.chunks for part in parts),
        sum(part.bytes_freed for part in parts),
    )


async def remove_everything(engine: Engine, yes: bool) -> RemovalResult:
    status = await engine.status()
    confirm(f"Remove all {pluralize(status.documents, 'document')} permanently?", yes)
    return await engine.clear()
