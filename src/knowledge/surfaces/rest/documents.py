"""Documents: list, show, fetch, change, remove."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from knowledge.errors import ConfirmationRequired
from knowledge.model import DEFAULT_COLLECTION, CollectionRef, Original, Ref
from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.openapi import Id, answers, streams, takes
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.wire import (
    ChunkRange,
    DocumentEditBody,
    DocumentListing,
    TagsBody,
    dump_document,
    dump_document_with_chunks,
    dump_documents,
    dump_removed,
    load_ref,
)
from knowledge.wire.shapes import DocumentShape, DocumentsShape, DocumentWithChunksShape, RemovedShape

router = APIRouter(route_class=Route, tags=["documents"])

HARMLESS = ("application/pdf", "text/plain", "text/csv", "text/markdown", "application/json", "image/png", "image/jpeg")
"""Types that a browser runs nothing of; every other file is only so many bytes to it."""


@router.get("/documents", responses=answers(DocumentsShape, 404))
async def documents(request: Request, wanted: Annotated[DocumentListing, Query()]) -> Response:
    """List the documents."""
    return answer(dump_documents(await engine_of(request).documents(wanted.to_filter())))


@router.delete("/documents", responses=answers(RemovedShape))
async def clear(request: Request, confirm: Annotated[bool, Query()] = False) -> Response:
    """Remove every document; `confirm=true` says that this is meant."""
    if not confirm:
        raise ConfirmationRequired("This removes every document", hint="Add confirm=true to do it.")
    return answer(dump_removed(await engine_of(request).clear()))


@router.get("/documents/{id}", responses=answers(DocumentWithChunksShape, 404))
async def document(request: Request, id: Id, part: Annotated[ChunkRange, Query()]) -> Response:
    """Show one document, by its number or UUID, with its passages."""
    engine, ref = engine_of(request), load_ref(id)
    found = await engine.document(ref)
    nothing = part.chunk_limit == 0
    chunks = [] if nothing else await engine.chunks(ref, part.chunk_offset, part.chunk_limit)
    return answer(dump_document_with_chunks(found, chunks))


@router.get("/documents/{id}/file", response_class=StreamingResponse, responses=streams(404))
async def file(request: Request, id: Id) -> Response:
    """Fetch the original bytes."""
    original = await engine_of(request).original(load_ref(id))
    return StreamingResponse(pieces(original), headers=file_headers(original.filename, original.size))


@router.patch(
    "/documents/{id}",
    openapi_extra=takes(DocumentEditBody),
    responses=answers(DocumentShape, 404, 409, 415),
)
async def edit(request: Request, id: Id) -> Response:
    """Change title, address, metadata, tags or collection; what is not given stays as it is."""
    body = await read_json(request, DocumentEditBody)
    return answer(dump_document(await engine_of(request).edit(load_ref(id), body.to_edit())))


@router.put("/documents/{id}/tags", openapi_extra=takes(TagsBody), responses=answers(DocumentShape, 404, 415))
async def tags(request: Request, id: Id) -> Response:
    """Add tags and remove others; a `collection:NAME` among them moves the document."""
    body, ref = await read_json(request, TagsBody), load_ref(id)
    edit = body.to_edit(await _destination(request, ref, body))
    return answer(dump_document(await engine_of(request).edit(ref, edit)))


async def _destination(request: Request, ref: Ref, body: TagsBody) -> CollectionRef | None:
    """Where the tags move the document; one that only loses its collection goes to the default."""
    target = body.moves_to()
    if target is not None or not body.leaves():
        return target
    document = await engine_of(request).document(ref)
    return DEFAULT_COLLECTION if document.collection in body.leaves() else None


@router.delete("/documents/{id}", responses=answers(RemovedShape, 404))
async def remove(request: Request, id: Id) -> Response:
    """Remove one document with everything that was made from it."""
    return answer(dump_removed(await engine_of(request).remove(load_ref(id))))


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
