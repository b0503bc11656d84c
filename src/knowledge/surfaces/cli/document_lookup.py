"""Finds the document that an argument names by id, UUID, path or exact title."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from knowledge.engine.api import Engine
from knowledge.errors import DocumentNotFound, InvalidParameter
from knowledge.model import CollectionRef, Document, DocumentFilter, Ref

DOCUMENTS_PER_PAGE = 200
MAX_LISTED = 10


async def find_document(engine: Engine, text: str) -> Document:
    """Find one document; a number is always an id, other text is a UUID, a path or a title that is unique."""
    ref = parse_ref(text)
    if ref is not None:
        return await engine.document(ref)
    found = await find_by_path(engine, text) or await find_by_title(engine, text)
    if not found:
        raise DocumentNotFound(
            f"There is no document '{text}'",
            hint="Use an id, a UUID, a path or the exact title; 'knowledge show' lists all documents.",
            document=text,
        )
    return require_single(found, text)


async def find_documents(engine: Engine, texts: Sequence[str]) -> list[Document]:
    found = [await find_document(engine, text) for text in texts]
    return list({document.id: document for document in found}.values())


def parse_ref(text: str) -> Ref | None:
    from knowledge.wire.values import load_ref

    try:
        return load_ref(text.removeprefix("#"))
    except InvalidParameter:
        return None


def parse_job_ref(text: str) -> Ref:
    from knowledge.wire.values import load_ref

    return load_ref(text.removeprefix("#"), "job")


def parse_collection_ref(text: str) -> CollectionRef:
    from knowledge.wire.values import load_collection_ref

    return load_collection_ref(text)


async def find_by_path(engine: Engine, text: str) -> list[Document]:
    """Find the documents added from a path, as written and as absolute path."""
    paths = dict.fromkeys((text, absolute_path(text)))
    return [
        document for path in paths async for document in iterate_documents(engine, DocumentFilter(source_path=path))
    ]


async def find_by_title(engine: Engine, text: str) -> list[Document]:
    everything = iterate_documents(engine, DocumentFilter(sort="title", descending=False))
    return [document async for document in everything if text in (document.title, document.filename)]


async def iterate_documents(engine: Engine, wanted: DocumentFilter) -> AsyncIterator[Document]:
    page = 1
    while True:
        found = await engine.documents(replace(wanted, page=page, per_page=DOCUMENTS_PER_PAGE))
        for document in found.items:
            yield document
        if page * DOCUMENTS_PER_PAGE >= found.total or not found.items:
            return
        page += 1


def require_single(found: Sequence[Document], text: str) -> Document:
    different = {document.id: document for document in found}
    if len(different) == 1:
        return found[0]
    numbers = ", ".join(str(number) for number in sorted(different)[:MAX_LISTED])
    raise InvalidParameter(
        f"{len(different)} documents match '{text}'",
        hint=f"Use an id instead: {numbers}.",
        parameter="document",
        documents=list(sorted(different)[:MAX_LISTED]),
    )


def absolute_path(path: str | Path) -> str:
    """Return the absolute path without resolving symlinks, as it is stored with a document."""
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100  (resolve would follow symlinks)
