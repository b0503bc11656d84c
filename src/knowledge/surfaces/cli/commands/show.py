"""`knowledge show`: prints the details of a document, or lists documents."""

from __future__ import annotations

import json

import click

from knowledge.engine.api import Engine
from knowledge.model import Document, DocumentFilter, ResultPage
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import find_document, parse_collection_ref
from knowledge.surfaces.cli.output.terminal import (
    format_size,
    format_time,
    print_facts,
    print_json,
    print_message,
    print_table,
)
from knowledge.surfaces.cli.session import CliSession

SORT_FIELDS = ("created_at", "updated_at", "title", "size_bytes")


@click.command(
    epilog=format_examples(
        "knowledge show",
        "knowledge show --collection papers --sort title",
        "knowledge show 12",
        "knowledge show ~/papers/kettle.pdf --json",
    )
)
@click.argument("document", required=False, metavar="[DOCUMENT]")
@click.option("--collection", "-c", metavar="NAME", help="List this collection only.")
@click.option("--tag", "-t", metavar="TAG", help="List documents with this tag only.")
@click.option("--type", "doc_type", metavar="TYPE", help="List this type only, such as pdf, md or note.")
@click.option(
    "--sort", type=click.Choice(SORT_FIELDS), default="created_at", show_default=True, help="Sort order; titles A to Z."
)
@click.option("--page", type=click.IntRange(1), default=1, help="Page of the list.")
@click.option("--per-page", type=click.IntRange(1, 200), default=50, show_default=True, help="Entries per page.")
@common_options
@pass_session
def show(
    session: CliSession,
    document: str | None,
    collection: str | None,
    tag: str | None,
    doc_type: str | None,
    sort: str,
    page: int,
    per_page: int,
) -> None:
    """Show the details of DOCUMENT, or list documents.

    DOCUMENT is an id, a UUID, the path it was added from, or its exact title.
    """
    if document is not None:
        show_document(session, document)
        return
    wanted = DocumentFilter(
        collection=None if collection is None else parse_collection_ref(collection),
        tag=tag,
        doc_type=doc_type,
        sort=sort,
        descending=sort != "title",
        page=page,
        per_page=per_page,
    )
    print_document_page(session, session.run(lambda engine: engine.documents(wanted)))


def show_document(session: CliSession, text: str) -> None:
    async def work(engine: Engine) -> Document:
        return await find_document(engine, text)

    found = session.run(work)
    if session.as_json:
        from knowledge.wire import DocumentShape

        print_json(DocumentShape.from_document(found))
    else:
        print_document(found)


def print_document_page(session: CliSession, found: ResultPage[Document]) -> None:
    if session.as_json:
        from knowledge.wire import DocumentsShape

        print_json(DocumentsShape.from_page(found))
        return
    if not found.total:
        print_message("There are no documents. Add one with 'knowledge add FILE'.")
        return
    rows = [
        (str(one.id), one.title, one.doc_type, one.collection, ", ".join(one.tags), str(one.chunk_count))
        for one in found.items
    ]
    print_table(("id", "title", "type", "collection", "tags", "passages"), rows, right=("id", "passages"))
    if found.total > len(found.items):
        print_message(f"{len(found.items)} of {found.total}; --page {found.page + 1} shows more.")


def print_document(document: Document) -> None:
    print_facts(
        (
            ("id", document.id),
            ("uid", document.uid),
            ("title", document.title),
            ("kind", f"{document.kind.value}, {document.doc_type}"),
            ("collection", document.collection),
            ("tags", ", ".join(document.tags)),
            ("path", document.source_path),
            ("url", document.url),
            ("file", document.filename),
            ("size", format_size(document.size_bytes)),
            ("pages", document.page_count),
            ("passages", document.chunk_count),
            ("language", document.language),
            ("read by", document.method.value.replace("_", " ")),
            ("status", document.status.value),
            ("warnings", "\n".join(document.warnings)),
            ("metadata", json.dumps(document.metadata, ensure_ascii=False) if document.metadata else ""),
            ("added", format_time(document.created_at)),
            ("changed", format_time(document.updated_at)),
        )
    )
