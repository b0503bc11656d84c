"""Routes for many documents at once, for documents near another one, and for the map of passages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import PlainValidator, WithJsonSchema

from knowledge.model import CollectionRef
from knowledge.model.library import BatchResult
from knowledge.model.maps import MAX_MAP_POINTS, PassageMap
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import COLLECTION_SCHEMA, Id, ResponseModel, errors
from knowledge.wire import load_collection_ref
from knowledge.wire.library import BatchBody, SimilarListing, SimilarShape

router, map_router = APIRouter(tags=["documents"]), APIRouter(tags=["map"])


@router.post("/documents/batch", responses=errors(404, 415))
async def batch(body: BatchBody, engine: CallerEngine) -> ResponseModel[BatchResult]:
    """Tag, move or delete many documents, by `ids` or by `filter`.

    Documents that could not be changed are listed in `failures`, at most 100 of them. `remove` needs `confirm`, the
    number of documents; without it, the error says how many would be deleted (`details.documents`, `details.chunks`).
    """
    selection = body.to_selection()
    if not body.remove:
        return await engine.library.edit_many(selection, body.to_edit())
    body.check_removal()
    return await engine.library.remove_many(selection, body.confirm)


@router.get("/documents/{id}/similar", responses=errors(404))
async def similar(
    id: Id, engine: CallerEngine, wanted: Annotated[SimilarListing, Query()]
) -> ResponseModel[SimilarShape]:
    """List the documents that are most like this one, each with its nearest passage."""
    return SimilarShape.from_hits(await engine.library.similar(id, wanted.top))


@map_router.get("/map", responses=errors(404))
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
