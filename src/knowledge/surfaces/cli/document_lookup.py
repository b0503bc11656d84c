"""Which document is meant on the command line: its number, its UUID, its path, or its exact title."""

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
    """A number is a number; anything else may be a UUID, a path or a title, as long as only one document has it."""
    ref = parse_ref(text)
    if ref is not None:
        return await engine.document(ref)
    found = await find_by_path(engine, text) or await find_by_title(engine, text)
    if not found:
        raise DocumentNotFound(
            f"No document is called '{text}'",
            hint="'knowledge show' lists the documents; use a number, a UUID, a path or the exact title.",
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
    """Those that came from this path, as it is written and as it is seen from here."""
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
        f"{len(different)} documents are called '{text}'",
        hint=f"Use a number instead: {numbers}.",
        parameter="document",
        documents=list(sorted(different)[:MAX_LISTED]),
    )


def absolute_path(path: str | Path) -> str:
    """A path as it is kept with a document: from the root, without links followed."""
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100  (resolve would follow links)
