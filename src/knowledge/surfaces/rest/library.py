"""Routes for many documents at once, and for documents near another one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from knowledge.model.library import BatchResult
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import Id, ResponseModel, errors
from knowledge.wire.library import BatchBody, SimilarListing, SimilarShape

router = APIRouter(tags=["documents"])


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
