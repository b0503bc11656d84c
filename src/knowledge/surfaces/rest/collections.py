"""Routes for collections."""

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
    """Create a collection; without a name, the name is made from the title."""
    return await engine.create_collection(body.to_new())


@router.get("/{ref}", responses=errors(404))
async def collection(ref: CollectionName, engine: CallerEngine) -> ResponseModel[Collection]:
    """Get a collection by name, id or UUID; `collection:NAME` is always a name, also if it looks like an id."""
    return await engine.collection(ref)


@router.patch("/{ref}", responses=errors(404, 409, 415))
async def edit(
    ref: CollectionName,
    engine: CallerEngine,
    body: Annotated[CollectionEditBody, Body(default_factory=CollectionEditBody)],
) -> ResponseModel[Collection]:
    """Update a collection; fields that are not sent are unchanged."""
    return await engine.edit_collection(ref, body.to_edit())


@router.delete("/{ref}", responses=errors(404))
async def remove(ref: CollectionName, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Delete a collection with its documents."""
    return await engine.remove_collection(ref)
