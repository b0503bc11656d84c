"""Routes for documents and notes."""

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
from knowledge.surfaces.rest.framework.openapi import FILE_RESPONSE, Id, ResponseModel, errors
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

SAFE_MEDIA_TYPES = (
    "application/pdf", "text/plain", "text/csv", "text/markdown", "application/json", "image/png", "image/jpeg",
)  # fmt: skip
"""Media types without scripts; other files are sent as application/octet-stream, which prevents stored XSS."""


@router.get("/documents", tags=["documents"], responses=errors(404))
async def documents(engine: CallerEngine, wanted: Annotated[DocumentListing, Query()]) -> ResponseModel[DocumentsShape]:
    """List documents."""
    return DocumentsShape.from_page(await engine.documents(wanted.to_filter()))


@router.delete("/documents", tags=["documents"])
async def clear(engine: CallerEngine, confirm: Annotated[bool, Query()] = False) -> ResponseModel[RemovalResult]:
    """Delete all documents; needs `confirm=true`."""
    if not confirm:
        raise ConfirmationRequired("This deletes all documents", hint="Add confirm=true to confirm it.")
    return await engine.clear()


@router.get("/documents/{id}", tags=["documents"], responses=errors(404))
async def document(
    id: Id, engine: CallerEngine, part: Annotated[ChunkRange, Query()]
) -> ResponseModel[DocumentWithChunksShape]:
    """Get a document by id or UUID, with its passages."""
    found = await engine.document(id)
    nothing = part.chunk_limit == 0
    chunks = [] if nothing else await engine.chunks(id, part.chunk_offset, part.chunk_limit)
    return DocumentWithChunksShape.from_chunks(found, chunks)


@router.get(
    "/documents/{id}/file",
    tags=["documents"],
    response_class=StreamingResponse,
    responses={**FILE_RESPONSE, **errors(404)},
)
async def file(id: Id, engine: CallerEngine) -> StreamingResponse:
    """Download the original file."""
    original = await engine.original(id)
    return StreamingResponse(pieces(original), headers=file_headers(original.filename, original.size))


@router.patch("/documents/{id}", tags=["documents"], responses=errors(404, 409, 415))
async def edit(
    id: Id, engine: CallerEngine, body: Annotated[DocumentEditBody, Body(default_factory=DocumentEditBody)]
) -> ResponseModel[DocumentShape]:
    """Update title, URL, metadata, tags or collection; fields that are not sent are unchanged."""
    return DocumentShape.from_document(await engine.edit(id, body.to_edit()))


@router.put("/documents/{id}/tags", tags=["documents"], responses=errors(404, 415))
async def tags(
    id: Id, engine: CallerEngine, body: Annotated[TagsBody, Body(default_factory=TagsBody)]
) -> ResponseModel[DocumentShape]:
    """Add and remove tags; the tag `collection:NAME` moves the document."""
    return DocumentShape.from_document(await engine.edit(id, body.to_edit(await _find_target(engine, id, body))))


async def _find_target(engine: Engine, ref: Ref, body: TagsBody) -> CollectionRef | None:
    """Return the collection that the tags move the document to; the default if its collection tag is removed."""
    target = body.find_new_collection()
    if target is not None or not body.find_removed_collections():
        return target
    document = await engine.document(ref)
    return DEFAULT_COLLECTION if document.collection in body.find_removed_collections() else None


@router.delete("/documents/{id}", tags=["documents"], responses=errors(404))
async def remove(id: Id, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Delete a document with its passages and its original."""
    return await engine.remove(id)


@router.patch("/notes/{id}", tags=["notes"], responses=errors(404, 409, 415))
async def update(id: Id, body: NoteBody, engine: CallerEngine) -> ResponseModel[DocumentShape]:
    """Replace the text of a note; the response is sent when the new text is searchable."""
    return DocumentShape.from_document(await engine.update_note(id, body.text))


async def pieces(original: Original) -> AsyncIterator[bytes]:
    async for piece in original.pieces:
        yield piece


def file_headers(filename: str, size: int) -> dict[str, str]:
    """Return the headers of a download: always an attachment, with the filename in ASCII and in UTF-8 (RFC 6266)."""
    plain = "".join(
        letter if letter.isascii() and letter.isprintable() and letter not in '"\\%' else "_" for letter in filename
    )
    media_type = mimetypes.guess_type(filename)[0]
    return {
        "Content-Type": media_type if media_type in SAFE_MEDIA_TYPES else "application/octet-stream",
        "Content-Length": str(size),
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
