"""The route of the map of passages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import PlainValidator, WithJsonSchema

from knowledge.model import CollectionRef
from knowledge.model.maps import MAX_MAP_POINTS, PassageMap
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import COLLECTION_SCHEMA, ResponseModel, errors
from knowledge.wire import load_collection_ref

router = APIRouter(tags=["map"])


@router.get("/map", responses=errors(404))
async def passage_map(
    engine: CallerEngine,
    collection: Annotated[
        CollectionRef | None,
        PlainValidator(load_collection_ref),
        WithJsonSchema(COLLECTION_SCHEMA),
        Query(description="The name, id or UUID of a collection; without it, the map has all passages."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_MAP_POINTS, description="Maximum number of points.")] = MAX_MAP_POINTS,
) -> ResponseModel[PassageMap]:
    """Get a map of the passages: each a point, near those with a similar meaning.

    The map is made in the background: `state` is `making` until there is one, and `outdated` while it is made anew,
    which begins with the first request after more than 5 % of the passages have changed. Above 5,000 passages the
    points are a random sample. Passages without a vector have no point; `without_vectors` has their number and why.
    """
    return await engine.maps.read(collection, limit)
