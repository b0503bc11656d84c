"""`knowledge read`: prints the text of a document, one passage with its neighbours, or the original file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from knowledge.engine.api import Engine
from knowledge.errors import NotFound
from knowledge.model import Chunk, Document
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import find_document
from knowledge.surfaces.cli.output.terminal import print_json, sanitize_text
from knowledge.surfaces.cli.session import CliSession


@click.command(
    epilog=format_examples(
        "knowledge read 12",
        "knowledge read 12 --passage 7 --around 2",
        "knowledge read handbook.pdf --page 3",
        "knowledge read 12 --original > copy.pdf",
    )
)
@click.argument("document")
@click.option(
    "--passage", "-p", type=click.IntRange(0), metavar="N", help="Print passage N only; search shows the number."
)
@click.option("--around", "-a", type=click.IntRange(0), default=1, help="Neighbours to print on each side.  [1]")
@click.option("--page", type=click.IntRange(1), metavar="N", help="Print page N only.")
@click.option("--original", is_flag=True, help="Write the original file to standard output.")
@common_options
@pass_session
def read(
    session: CliSession, document: str, passage: int | None, around: int, page: int | None, original: bool
) -> None:
    """Print the text of DOCUMENT.

    DOCUMENT is an id, a UUID, the path it was added from, or its exact title.
    """
    if original:
        session.run(lambda engine: write_original(engine, document))
        return

    async def work(engine: Engine) -> tuple[Document, list[Chunk]]:
        found = await find_document(engine, document)
        return found, await read_passages(engine, found, passage, around, page)

    found, chunks = session.run(work)
    if session.as_json:
        from knowledge.wire import DocumentWithChunksShape

        print_json(DocumentWithChunksShape.from_chunks(found, chunks))
    else:
        text = format_passages(chunks, marked_index=passage)
        click.echo(sanitize_text(text) if sys.stdout.isatty() else text)


async def read_passages(
    engine: Engine, document: Document, passage: int | None, around: int, page: int | None
) -> list[Chunk]:
    if passage is None:
        chunks = await engine.chunks(document.id)
        return (
            chunks
            if page is None
            else require_chunks([chunk for chunk in chunks if chunk.page == page], f"page {page}")
        )
    first = max(0, passage - around)
    chunks = await engine.chunks(document.id, first, passage + around + 1 - first)
    require_chunks([chunk for chunk in chunks if chunk.index == passage], f"passage {passage}")
    return chunks


def require_chunks(chunks: list[Chunk], what: str) -> list[Chunk]:
    if not chunks:
        raise NotFound(f"The document has no {what}", hint="Run 'knowledge show DOCUMENT' for the number of them.")
    return chunks


def format_passages(chunks: Sequence[Chunk], marked_index: int | None = None) -> str:
    """Join passages in reading order, with headings and page numbers where they change."""
    lines: list[str] = []
    section: tuple[str, ...] = ()
    page: int | None = None
    for chunk in chunks:
        if chunk.page != page and chunk.page is not None:
            lines.append(f"--- page {chunk.page} ---")
        if chunk.section != section and chunk.section:
            place = "" if chunk.lines is None else f", lines {chunk.lines[0]}-{chunk.lines[1]}"
            lines.append(f"[{' › '.join(chunk.section)}{place}]")
        section, page = chunk.section, chunk.page
        if marked_index is not None:
            lines.append(f"{'>' if chunk.index == marked_index else ' '} passage {chunk.index}")
        lines.append(chunk.text.strip())
    return "\n\n".join(lines)


async def write_original(engine: Engine, text: str) -> None:
    original = await engine.original((await find_document(engine, text)).id)
    async for piece in original.pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
