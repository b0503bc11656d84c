"""Documents and notes: list, show, fetch, change, remove."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Query
from starlette.responses import StreamingResponse

from knowledge.engine.api import Engine
from knowledge.errors import ConfirmationRequired
from knowledge.model import DEFAULT_COLLECTION, CollectionRef, Original, Ref, RemovalResult
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import BYTES, Id, ResponseModel, errors
from knowledge.wire import (
    ChunkRange,
    DocumentEditBody,
    DocumentListing,
    DocumentShape,
    DocumentsShape,
    DocumentWithChunksShape,
    NoteBody,
    TagsBody,
)

router = APIRouter()

HARMLESS = ("application/pdf", "text/plain", "text/csv", "text/markdown", "application/json", "image/png", "image/jpeg")
"""Types that a browser runs nothing of; every other file is only so many bytes to it."""


@router.get("/documents", tags=["documents"], responses=errors(404))
async def documents(engine: CallerEngine, wanted: Annotated[DocumentListing, Query()]) -> ResponseModel[DocumentsShape]:
    """List the documents."""
    return DocumentsShape.from_page(await engine.documents(wanted.to_filter()))


@router.delete("/documents", tags=["documents"])
async def clear(engine: CallerEngine, confirm: Annotated[bool, Query()] = False) -> ResponseModel[RemovalResult]:
    """Remove every document; `confirm=true` says that this is meant."""
    if not confirm:
        raise ConfirmationRequired("This removes every document", hint="Add confirm=true to do it.")
    return await engine.clear()


@router.get("/documents/{id}", tags=["documents"], responses=errors(404))
async def document(
    id: Id, engine: CallerEngine, part: Annotated[ChunkRange, Query()]
) -> ResponseModel[DocumentWithChunksShape]:
    """Show one document, by its number or UUID, with its passages."""
    found = await engine.document(id)
    nothing = part.chunk_limit == 0
    chunks = [] if nothing else await engine.chunks(id, part.chunk_offset, part.chunk_limit)
    return DocumentWithChunksShape.from_chunks(found, chunks)


@router.get(
    "/documents/{id}/file", tags=["documents"], response_class=StreamingResponse, responses={**BYTES, **errors(404)}
)
async def file(id: Id, engine: CallerEngine) -> StreamingResponse:
    """Fetch the original bytes."""
    original = await engine.original(id)
    return StreamingResponse(pieces(original), headers=file_headers(original.filename, original.size))


@router.patch("/documents/{id}", tags=["documents"], responses=errors(404, 409, 415))
async def edit(
    id: Id, engine: CallerEngine, body: Annotated[DocumentEditBody, Body(default_factory=DocumentEditBody)]
) -> ResponseModel[DocumentShape]:
    """Change title, address, metadata, tags or collection; what is not given stays as it is."""
    return DocumentShape.from_document(await engine.edit(id, body.to_edit()))


@router.put("/documents/{id}/tags", tags=["documents"], responses=errors(404, 415))
async def tags(
    id: Id, engine: CallerEngine, body: Annotated[TagsBody, Body(default_factory=TagsBody)]
) -> ResponseModel[DocumentShape]:
    """Add tags and remove others; a `collection:NAME` among them moves the document."""
    return DocumentShape.from_document(await engine.edit(id, body.to_edit(await _destination(engine, id, body))))


async def _destination(engine: Engine, ref: Ref, body: TagsBody) -> CollectionRef | None:
    """Where the tags move the document; one that only loses its collection goes to the default."""
    target = body.find_new_collection()
    if target is not None or not body.find_removed_collections():
        return target
    document = await engine.document(ref)
    return DEFAULT_COLLECTION if document.collection in body.find_removed_collections() else None


@router.delete("/documents/{id}", tags=["documents"], responses=errors(404))
async def remove(id: Id, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Remove one document with everything that was made from it."""
    return await engine.remove(id)


@router.patch("/notes/{id}", tags=["notes"], responses=errors(404, 409, 415))
async def update(id: Id, body: NoteBody, engine: CallerEngine) -> ResponseModel[DocumentShape]:
    """Give a note another text; answered when it can be found."""
    return DocumentShape.from_document(await engine.update_note(id, body.text))


async def pieces(original: Original) -> AsyncIterator[bytes]:
    async for piece in original.pieces:
        yield piece


def file_headers(filename: str, size: int) -> dict[str, str]:
    """Saved by a browser and never shown by it, under a name that every browser reads."""
    plain = "".join(
        letter if letter.isascii() and letter.isprintable() and letter not in '"\\%' else "_" for letter in filename
    )
    media_type = mimetypes.guess_type(filename)[0]
    return {
        "Content-Type": media_type if media_type in HARMLESS else "application/octet-stream",
        "Content-Length": str(size),
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
