"""`knowledge read`: a document's text, one of its passages with its neighbours, or its original bytes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from knowledge.engine.api import Engine
from knowledge.errors import NotFound
from knowledge.model import Chunk, Document
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.find_document import find_document
from knowledge.surfaces.cli.output.screen import clean, print_json
from knowledge.surfaces.cli.session import Session


@click.command(
    epilog=examples(
        "knowledge read 12",
        "knowledge read 12 --passage 7 --around 2",
        "knowledge read handbook.pdf --page 3",
        "knowledge read 12 --original > copy.pdf",
    )
)
@click.argument("document")
@click.option("--passage", "-p", type=click.IntRange(0), metavar="N", help="Only passage N, as a search shows it.")
@click.option("--around", "-a", type=click.IntRange(0), default=1, help="How many neighbours on each side.  [1]")
@click.option("--page", type=click.IntRange(1), metavar="N", help="Only page N.")
@click.option("--original", is_flag=True, help="The bytes as they came in, to standard output.")
@common
@pass_session
def read(session: Session, document: str, passage: int | None, around: int, page: int | None, original: bool) -> None:
    """Print the text of DOCUMENT.

    DOCUMENT is a number, a UUID, the path that it came from, or its exact title.
    """
    if original:
        session.run(lambda engine: write_original(engine, document))
        return

    async def work(engine: Engine) -> tuple[Document, list[Chunk]]:
        found = await find_document(engine, document)
        return found, await passages(engine, found, passage, around, page)

    found, chunks = session.run(work)
    if session.as_json:
        from knowledge.wire import dump_document_with_chunks

        print_json(dump_document_with_chunks(found, chunks))
    else:
        text = as_text(chunks, marked=passage)
        click.echo(clean(text) if sys.stdout.isatty() else text)


async def passages(
    engine: Engine, document: Document, passage: int | None, around: int, page: int | None
) -> list[Chunk]:
    if passage is None:
        chunks = await engine.chunks(document.id)
        return chunks if page is None else require([chunk for chunk in chunks if chunk.page == page], f"page {page}")
    first = max(0, passage - around)
    chunks = await engine.chunks(document.id, first, passage + around + 1 - first)
    require([chunk for chunk in chunks if chunk.index == passage], f"passage {passage}")
    return chunks


def require(chunks: list[Chunk], what: str) -> list[Chunk]:
    if not chunks:
        raise NotFound(f"The document has no {what}", hint="'knowledge show DOCUMENT' tells how many there are.")
    return chunks


def as_text(chunks: Sequence[Chunk], marked: int | None = None) -> str:
    """Passages in reading order; headings and page numbers stand where they change."""
    lines: list[str] = []
    section: tuple[str, ...] = ()
    page: int | None = None
    for chunk in chunks:
        if chunk.page != page and chunk.page is not None:
            lines.append(f"--- page {chunk.page} ---")
        if chunk.section != section and chunk.section:
            lines.append(f"[{' › '.join(chunk.section)}]")
        section, page = chunk.section, chunk.page
        if marked is not None:
            lines.append(f"{'>' if chunk.index == marked else ' '} passage {chunk.index}")
        lines.append(chunk.text.strip())
    return "\n\n".join(lines)


async def write_original(engine: Engine, text: str) -> None:
    original = await engine.original((await find_document(engine, text)).id)
    async for piece in original.pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
