"""`knowledge move` and `knowledge tag`: change the collection and the tags of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.model import Document, DocumentEdit
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import find_document, find_documents, parse_collection_ref
from knowledge.surfaces.cli.output.terminal import pluralize, print_json, sanitize_text
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from knowledge.surfaces.cli.output.json_shapes import EditedShape


@click.command(epilog=format_examples("knowledge move 12 13 archive", "knowledge move 'Old report' archive"))
@click.argument("documents", nargs=-1, required=True, metavar="DOCUMENT...")
@click.argument("collection")
@common_options
@pass_session
def move(session: CliSession, documents: tuple[str, ...], collection: str) -> None:
    """Move documents to COLLECTION."""
    target = parse_collection_ref(collection)

    async def work(engine: Engine) -> list[Document]:
        found = await find_documents(engine, documents)
        return [await engine.edit(document.id, DocumentEdit(collection=target)) for document in found]

    moved = session.run(work)
    if session.as_json:
        print_documents(moved)
    else:
        click.echo(sanitize_text(f"Moved {pluralize(len(moved), 'document')} to {moved[0].collection}."))


@click.command(
    epilog=format_examples(
        "knowledge tag 12", "knowledge tag 12 draft physics", "knowledge tag 12 final --remove draft"
    )
)
@click.argument("document")
@click.argument("tags", nargs=-1, metavar="[TAG]...")
@click.option("--remove", "-r", "removed", multiple=True, metavar="TAG", help="Tag to remove; can be repeated.")
@common_options
@pass_session
def tag(session: CliSession, document: str, tags: tuple[str, ...], removed: tuple[str, ...]) -> None:
    """Add TAGs to DOCUMENT, remove others, and print the tags it has."""

    async def work(engine: Engine) -> Document:
        found = await find_document(engine, document)
        if not tags and not removed:
            return found
        return await engine.edit(found.id, DocumentEdit(add_tags=tags, remove_tags=removed))

    edited = session.run(work)
    if session.as_json:
        print_documents([edited])
    else:
        for name in edited.tags:
            click.echo(sanitize_text(name))


def print_documents(documents: Sequence[Document]) -> None:
    from knowledge.wire import DocumentShape

    shape: EditedShape = {"documents": [DocumentShape.from_document(document) for document in documents]}
    print_json(shape)
