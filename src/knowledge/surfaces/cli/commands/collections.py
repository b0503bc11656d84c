"""`knowledge collections`: the shelves that documents stand on."""

from __future__ import annotations

import click

from knowledge.engine.api import Engine
from knowledge.model import Collection, CollectionEdit, NewCollection, Removed
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.confirm import confirm
from knowledge.surfaces.cli.find_document import collection_ref
from knowledge.surfaces.cli.output.screen import clean, count, print_json, print_table, say, size
from knowledge.surfaces.cli.session import Session


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "knowledge collections",
        "knowledge collections create 'House papers' --description 'Contracts and bills'",
        "knowledge collections rename house-papers 'Papers of the house'",
        "knowledge collections remove house-papers",
    ),
)
@click.option("--page", type=click.IntRange(1), default=1, help="Which page of the list.")
@click.option("--per-page", type=click.IntRange(1, 200), default=50, show_default=True, help="How long a page is.")
@common
@pass_session
@click.pass_context
def collections(context: click.Context, session: Session, page: int, per_page: int) -> None:
    """List the collections, or create, rename and remove them."""
    if context.invoked_subcommand is not None:
        return
    found = session.run(lambda engine: engine.collections(page, per_page))
    if session.as_json:
        from knowledge.wire import dump_collections

        print_json(dump_collections(found))
        return
    rows = [
        (
            str(one.id),
            one.name,
            one.title if one.title != one.name else "",
            str(one.document_count),
            str(one.chunk_count),
        )
        for one in found.items
    ]
    print_table(("id", "name", "title", "documents", "passages"), rows, right=("id", "documents", "passages"))
    if found.total > page * per_page:
        say(f"{len(found.items)} of {found.total}; --page {page + 1} shows more.")


@collections.command(epilog=examples("knowledge collections create 'House papers'"))
@click.argument("title")
@click.option("--name", metavar="NAME", help="How it is called in commands; made from the title otherwise.")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@common
@pass_session
def create(session: Session, title: str, name: str | None, description: str) -> None:
    """Make a collection."""
    new = NewCollection(title=title, name=name, description=description)
    tell(session, session.run(lambda engine: engine.create_collection(new)), "Created")


@collections.command(epilog=examples("knowledge collections rename house-papers 'Papers of the house'"))
@click.argument("collection")
@click.argument("title")
@click.option("--description", metavar="TEXT", help="What it is for.")
@common
@pass_session
def rename(session: Session, collection: str, title: str, description: str | None) -> None:
    """Give COLLECTION another title; the name that commands use stays."""
    edit = CollectionEdit(title=title, description=description)
    tell(session, session.run(lambda engine: engine.edit_collection(collection_ref(collection), edit)), "Renamed")


@collections.command(epilog=examples("knowledge collections remove house-papers --yes"))
@click.argument("collection")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
@pass_session
def remove(session: Session, collection: str, yes: bool) -> None:
    """Remove COLLECTION with everything that stands in it."""

    async def work(engine: Engine) -> Removed:
        found = await engine.collection(collection_ref(collection))
        confirm(f"Remove '{found.name}' with {count(found.document_count, 'document')} for good?", yes)
        return await engine.remove_collection(found.id)

    removed = session.run(work)
    if session.as_json:
        from knowledge.wire import dump_removed

        print_json(dump_removed(removed))
    else:
        click.echo(f"Removed it with {count(removed.documents, 'document')}, {size(removed.bytes_freed)}.")


def tell(session: Session, collection: Collection, what: str) -> None:
    if session.as_json:
        from knowledge.wire import dump_collection

        print_json(dump_collection(collection))
    else:
        click.echo(clean(f"{what} collection {collection.id}: {collection.name} ({collection.title})"))
