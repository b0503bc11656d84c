"""Collections: list, make, show, change, remove."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query

from knowledge.model import Collection, RemovalResult
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import CollectionName, ResponseModel, errors
from knowledge.wire import CollectionEditBody, CollectionsShape, Listing, NewCollectionBody

router = APIRouter(tags=["collections"], prefix="/collections")


@router.get("")
async def collections(engine: CallerEngine, wanted: Annotated[Listing, Query()]) -> ResponseModel[CollectionsShape]:
    """List the collections."""
    return CollectionsShape.from_page(await engine.collections(wanted.page, wanted.per_page))


@router.post("", status_code=201, responses=errors(409, 415))
async def create(
    engine: CallerEngine, body: Annotated[NewCollectionBody, Body(default_factory=NewCollectionBody)]
) -> ResponseModel[Collection]:
    """Make a collection; without a name it gets one from its title."""
    return await engine.create_collection(body.to_new())


@router.get("/{ref}", responses=errors(404))
async def collection(ref: CollectionName, engine: CallerEngine) -> ResponseModel[Collection]:
    """Show one collection, by name, number or UUID; `collection:NAME` is a name whatever it looks like."""
    return await engine.collection(ref)


@router.patch("/{ref}", responses=errors(404, 409, 415))
async def edit(
    ref: CollectionName,
    engine: CallerEngine,
    body: Annotated[CollectionEditBody, Body(default_factory=CollectionEditBody)],
) -> ResponseModel[Collection]:
    """Change a collection; what is not given stays as it is."""
    return await engine.edit_collection(ref, body.to_edit())


@router.delete("/{ref}", responses=errors(404))
async def remove(ref: CollectionName, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Remove a collection with everything that stands in it."""
    return await engine.remove_collection(ref)
