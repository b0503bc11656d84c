"""Routes for documents and notes."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

from fastapi import APIRouter, Body, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from knowledge.engine.api import Engine
from knowledge.errors import ConfirmationRequired, InvalidParameter
from knowledge.model import DEFAULT_COLLECTION, CollectionRef, Original, Ref, RemovalResult
from knowledge.surfaces.http.responses import json_response
from knowledge.surfaces.rest.framework.conditional import (
    RangeNotSatisfiable,
    format_etag,
    matches_etag,
    may_use_range,
    parse_if_match,
    parse_range,
)
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
    dump_error,
)

router = APIRouter()

RANGE_RESPONSES: dict[int | str, dict[str, Any]] = {
    206: {
        "description": "A part of the file.",
        "content": {"application/octet-stream": {"schema": {"type": "string"}}},
    },
    304: {"description": "The file is the one of If-None-Match."},
    416: {"description": "The range begins after the end of the file."},
}

IfMatch: TypeAlias = Annotated[str | None, Header(max_length=200, description="The `ETag` of the document.")]

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
    id: Id, engine: CallerEngine, part: Annotated[ChunkRange, Query()], response: Response
) -> ResponseModel[DocumentWithChunksShape]:
    """Get a document by id or UUID, with its passages; `ETag` is for `If-Match` of a later change."""
    found = await engine.document(id)
    response.headers["ETag"] = format_etag(found.revision)
    nothing = part.chunk_limit == 0
    chunks = [] if nothing else await engine.chunks(id, part.chunk_offset, part.chunk_limit)
    return DocumentWithChunksShape.from_chunks(found, chunks)


@router.get(
    "/documents/{id}/file",
    tags=["documents"],
    response_class=StreamingResponse,
    responses={**FILE_RESPONSE, **RANGE_RESPONSES, **errors(404)},
)
async def file(id: Id, request: Request, engine: CallerEngine) -> Response:
    """Download the original file, or the part of it that `Range` names; `ETag` is its SHA-256. HEAD works too."""
    document = await engine.document(id)
    common = {"ETag": format_etag(document.sha256), "Accept-Ranges": "bytes", "Cache-Control": "no-store"}
    if matches_etag(request.headers.get("if-none-match"), document.sha256):
        return Response(status_code=304, headers=common)
    try:
        part = parse_range(request.headers.get("range"), document.size_bytes)
    except RangeNotSatisfiable:
        message = f"The range begins after the end of the file, which has {document.size_bytes} bytes"
        refused = dump_error(InvalidParameter(message, parameter="Range"))
        return json_response(refused, 416, {**common, "Content-Range": f"bytes */{document.size_bytes}"})
    if not may_use_range(request.headers.get("if-range"), document.sha256):
        part = None
    original = await engine.original(id, *((part.start, part.stop) if part else ()))
    if original.sha256 != document.sha256:  # replaced meanwhile
        part, original = None, await engine.original(id)
        common["ETag"] = format_etag(original.sha256)
    headers = {**file_headers(original.filename, original.size), **common}
    if part is not None:
        headers["Content-Length"] = str(part.stop - part.start)
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{original.size}"
    return StreamingResponse(pieces(original), 206 if part else 200, headers=headers)


@router.head("/documents/{id}/file", include_in_schema=False)
async def file_head(id: Id, request: Request, engine: CallerEngine) -> Response:
    """Get the headers of the original file."""
    document = await engine.document(id)
    common = {"ETag": format_etag(document.sha256), "Accept-Ranges": "bytes", "Cache-Control": "no-store"}
    if matches_etag(request.headers.get("if-none-match"), document.sha256):
        return Response(status_code=304, headers=common)
    return Response(headers={**file_headers(document.filename or document.title, document.size_bytes), **common})


@router.patch("/documents/{id}", tags=["documents"], responses=errors(404, 409, 412, 415))
async def edit(
    id: Id,
    engine: CallerEngine,
    body: Annotated[DocumentEditBody, Body(default_factory=DocumentEditBody)],
    response: Response,
    if_match: IfMatch = None,
) -> ResponseModel[DocumentShape]:
    """Update title, URL, metadata, tags or collection; fields that are not sent are unchanged.

    With `If-Match`, nothing is written if the document was changed since it had this `ETag`.
    """
    edited = await engine.edit(id, replace(body.to_edit(), expected=parse_if_match(if_match)))
    response.headers["ETag"] = format_etag(edited.revision)
    return DocumentShape.from_document(edited)


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


@router.patch("/notes/{id}", tags=["notes"], responses=errors(404, 409, 412, 415))
async def update(
    id: Id, body: NoteBody, engine: CallerEngine, response: Response, if_match: IfMatch = None
) -> ResponseModel[DocumentShape]:
    """Replace the text of a note; the response is sent when the new text is searchable.

    With `If-Match`, nothing is written if the note was changed since it had this `ETag`.
    """
    updated = await engine.update_note(id, body.text, parse_if_match(if_match))
    response.headers["ETag"] = format_etag(updated.revision)
    return DocumentShape.from_document(updated)


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
