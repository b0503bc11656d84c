"""Opens a document in the program that the desktop has for it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from knowledge.engine.api import Engine
from knowledge.errors import MissingDependency
from knowledge.model import Document
from knowledge.surfaces.cli.output.screen import say


async def open_document(engine: Engine, document: Document) -> None:
    """The file where it came from, if it is still there; else its address; else a copy of the kept original."""
    place = await location(engine, document)
    say(f"Opening {place}")
    if click.launch(place) != 0:
        raise MissingDependency(f"No program could open {place}", hint="Open it yourself; the path is right.")


async def location(engine: Engine, document: Document) -> str:
    if document.source_path and Path(document.source_path).is_file():
        return document.source_path
    if document.url and document.url.startswith(("http://", "https://")):
        return document.url
    original = await engine.original(document.id)
    name = Path(original.filename).name if Path(original.filename).suffix else f"{document.id}.{suffix(document)}"
    copy = Path(tempfile.mkdtemp(prefix="knowledge-")) / name
    with copy.open("wb") as file:
        async for piece in original.pieces:
            file.write(piece)
    return str(copy)


def suffix(document: Document) -> str:
    return "txt" if document.doc_type == "note" else document.doc_type
