"""Routes for the pages of a document: pictures, words, places of passages, outline."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from knowledge.model.pages import THUMBNAIL_WIDTH, DocumentPages, PageImage, PageWords, Places, make_page_etag
from knowledge.surfaces.rest.framework.conditional import format_etag, matches_etag
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import Id, ResponseModel, errors
from knowledge.wire.pages import OutlineShape

router = APIRouter(tags=["pages"])

MAX_NUMBER = 10**6
PageNumber: TypeAlias = Annotated[int, Path(ge=1, le=MAX_NUMBER, description="The page, from 1.")]
IMAGE_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The picture.", "content": {"image/webp": {"schema": {"type": "string"}}}},
    304: {"description": "The picture is the one of If-None-Match."},
}


@router.get("/documents/{id}/pages", responses=errors(404))
async def pages(
    id: Id,
    engine: CallerEngine,
    first: Annotated[int, Query(alias="from", ge=1, le=MAX_NUMBER, description="The first page.")] = 1,
    last: Annotated[
        int | None, Query(alias="to", ge=1, le=MAX_NUMBER, description="The last page; at most 500 are listed.")
    ] = None,
) -> ResponseModel[DocumentPages]:
    """List the pages of a PDF or an image with their sizes; other documents have none (`no_pages`)."""
    return await engine.pages.sizes(id, first, last)


@router.get("/documents/{id}/pages/{number}", response_class=Response, responses={**IMAGE_RESPONSE, **errors(404)})
async def page_image(
    id: Id,
    number: PageNumber,
    request: Request,
    engine: CallerEngine,
    width: Annotated[Literal["900", "1600"], Query(description="Width in pixels.")] = "900",
) -> Response:
    """Draw a page as WebP with an `ETag`; a very long page and a small image are narrower than asked for."""
    document = await engine.document(id)
    etag = make_page_etag(document.sha256, number, int(width))
    if matches_etag(request.headers.get("if-none-match"), etag):
        return not_modified(etag)
    return image_response(await engine.pages.image(id, number, int(width)))


@router.get("/documents/{id}/thumbnail", response_class=Response, responses={**IMAGE_RESPONSE, **errors(404)})
async def thumbnail(id: Id, request: Request, engine: CallerEngine) -> Response:
    """Draw the first page as a small WebP picture, 240 pixels wide."""
    document = await engine.document(id)
    etag = make_page_etag(document.sha256, 1, THUMBNAIL_WIDTH)
    if matches_etag(request.headers.get("if-none-match"), etag):
        return not_modified(etag)
    return image_response(await engine.pages.thumbnail(id))


@router.get("/documents/{id}/pages/{number}/words", responses=errors(404))
async def words(id: Id, number: PageNumber, engine: CallerEngine) -> ResponseModel[PageWords]:
    """List the words of a page with their boxes, as shares (0 to 1) of the page from its top left corner.

    `source` says where they come from: the `text` of the PDF, `ocr`, or `none` if no words are known.
    """
    return await engine.pages.words(id, number)


@router.get("/documents/{id}/places", responses=errors(404))
async def places(
    id: Id,
    engine: CallerEngine,
    first: Annotated[int, Query(alias="from", ge=0, le=10**9, description="Index of the first passage.")],
    last: Annotated[
        int | None,
        Query(alias="to", ge=0, le=10**9, description="Index of the last passage, included; `from` if omitted."),
    ] = None,
) -> ResponseModel[Places]:
    """Find the boxes of passages on their pages, one box per line, as shares (0 to 1) of the page.

    `coverage` is the share of the passage that was found. `note` says why there are no boxes: `read_before_boxes` (run
    `knowledge reindex --reread`) or `no_pages`.
    """
    return await engine.pages.places(id, first, first if last is None else last)


@router.get("/documents/{id}/outline", responses=errors(404))
async def outline(id: Id, engine: CallerEngine) -> ResponseModel[OutlineShape]:
    """List the headings of a document."""
    return OutlineShape(tuple(await engine.pages.outline(id)))


def image_response(image: PageImage) -> Response:
    return Response(image.data, headers=image_headers(image.etag), media_type="image/webp")


def not_modified(etag: str) -> Response:
    return Response(status_code=304, headers=image_headers(etag))


def image_headers(etag: str) -> dict[str, str]:
    return {
        "ETag": format_etag(etag),
        "Cache-Control": "private, max-age=86400",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
