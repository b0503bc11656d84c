"""`knowledge collections`: lists, creates, renames, trusts and removes collections."""

from __future__ import annotations

import click

from knowledge.engine.api import Engine
from knowledge.model import Collection, CollectionEdit, NewCollection, RemovalResult
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import parse_collection_ref
from knowledge.surfaces.cli.output.terminal import (
    confirm,
    format_size,
    pluralize,
    print_json,
    print_message,
    print_table,
    sanitize_text,
)
from knowledge.surfaces.cli.session import CliSession


@click.group(
    invoke_without_command=True,
    epilog=format_examples(
        "knowledge collections",
        "knowledge collections create 'Tax papers' --description 'Contracts and bills'",
        "knowledge collections rename tax-papers 'Taxes 2026'",
        "knowledge collections trust tax-papers",
        "knowledge collections remove tax-papers",
    ),
)
@click.option("--page", type=click.IntRange(1), default=1, help="Page of the list.")
@click.option("--per-page", type=click.IntRange(1, 200), default=50, show_default=True, help="Entries per page.")
@common_options
@pass_session
@click.pass_context
def collections(context: click.Context, session: CliSession, page: int, per_page: int) -> None:
    """List the collections, or create, rename, trust and remove them."""
    if context.invoked_subcommand is not None:
        return
    found = session.run(lambda engine: engine.collections(page, per_page))
    if session.as_json:
        from knowledge.wire import CollectionsShape

        print_json(CollectionsShape.from_page(found))
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
        print_message(f"{len(found.items)} of {found.total}; --page {page + 1} shows more.")


@collections.command(epilog=format_examples("knowledge collections create 'Tax papers'"))
@click.argument("title")
@click.option("--name", metavar="NAME", help="Name to use in commands.  [default: made from the title]")
@click.option("--description", default="", metavar="TEXT", help="Description.")
@common_options
@pass_session
def create(session: CliSession, title: str, name: str | None, description: str) -> None:
    """Create a collection."""
    new = NewCollection(title=title, name=name, description=description)
    print_collection(session, session.run(lambda engine: engine.create_collection(new)), "Created")


@collections.command(epilog=format_examples("knowledge collections rename tax-papers 'Taxes 2026'"))
@click.argument("collection")
@click.argument("title")
@click.option("--description", metavar="TEXT", help="New description.")
@common_options
@pass_session
def rename(session: CliSession, collection: str, title: str, description: str | None) -> None:
    """Change the title of COLLECTION; its name stays the same."""
    edit = CollectionEdit(title=title, description=description)
    print_collection(
        session, session.run(lambda engine: engine.edit_collection(parse_collection_ref(collection), edit)), "Renamed"
    )


@collections.command(epilog=format_examples("knowledge collections trust tax-papers"))
@click.argument("collection")
@click.option("--off", is_flag=True, help="Do not trust it any more.")
@common_options
@pass_session
def trust(session: CliSession, collection: str, off: bool) -> None:
    """Trust all documents of COLLECTION; searches with --trusted-only include it."""
    edit = CollectionEdit(trusted=not off)
    edited = session.run(lambda engine: engine.edit_collection(parse_collection_ref(collection), edit))
    print_collection(session, edited, "No longer trusts" if off else "Trusts")


@collections.command(epilog=format_examples("knowledge collections remove tax-papers --yes"))
@click.argument("collection")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common_options
@pass_session
def remove(session: CliSession, collection: str, yes: bool) -> None:
    """Remove COLLECTION and its documents."""

    async def work(engine: Engine) -> RemovalResult:
        found = await engine.collection(parse_collection_ref(collection))
        confirm(f"Remove '{found.name}' with {pluralize(found.document_count, 'document')} permanently?", yes)
        return await engine.remove_collection(found.id)

    removed = session.run(work)
    if session.as_json:
        print_json(removed)
    else:
        documents = pluralize(removed.documents, "document")
        click.echo(f"Removed the collection with {documents}, {format_size(removed.bytes_freed)}.")


def print_collection(session: CliSession, collection: Collection, what: str) -> None:
    if session.as_json:
        print_json(collection)
    else:
        click.echo(sanitize_text(f"{what} collection {collection.id}: {collection.name} ({collection.title})"))
