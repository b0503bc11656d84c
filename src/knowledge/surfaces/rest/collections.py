"""Collections: list, make, show, change, remove."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.openapi import CollectionName, answers, takes
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.wire import (
    CollectionEditBody,
    Listing,
    NewCollectionBody,
    dump_collection,
    dump_collections,
    dump_removed,
    load_collection_ref,
)
from knowledge.wire.shapes import CollectionShape, CollectionsShape, RemovedShape

router = APIRouter(route_class=Route, tags=["collections"])


@router.get("/collections", responses=answers(CollectionsShape))
async def collections(request: Request, wanted: Annotated[Listing, Query()]) -> Response:
    """List the collections."""
    return answer(dump_collections(await engine_of(request).collections(wanted.page, wanted.per_page)))


@router.post(
    "/collections",
    status_code=201,
    openapi_extra=takes(NewCollectionBody),
    responses=answers(CollectionShape, 409, 415, status=201),
)
async def create(request: Request) -> Response:
    """Make a collection; without a name it gets one from its title."""
    body = await read_json(request, NewCollectionBody)
    return answer(dump_collection(await engine_of(request).create_collection(body.to_new())), 201)


@router.get("/collections/{ref}", responses=answers(CollectionShape, 404))
async def collection(request: Request, ref: CollectionName) -> Response:
    """Show one collection, by name, number or UUID; `collection:NAME` is a name whatever it looks like."""
    return answer(dump_collection(await engine_of(request).collection(load_collection_ref(ref))))


@router.patch(
    "/collections/{ref}",
    openapi_extra=takes(CollectionEditBody),
    responses=answers(CollectionShape, 404, 409, 415),
)
async def edit(request: Request, ref: CollectionName) -> Response:
    """Change a collection; what is not given stays as it is."""
    body = await read_json(request, CollectionEditBody)
    changed = await engine_of(request).edit_collection(load_collection_ref(ref), body.to_edit())
    return answer(dump_collection(changed))


@router.delete("/collections/{ref}", responses=answers(RemovedShape, 404))
async def remove(request: Request, ref: CollectionName) -> Response:
    """Remove a collection with everything that stands in it."""
    return answer(dump_removed(await engine_of(request).remove_collection(load_collection_ref(ref))))
