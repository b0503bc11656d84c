"""Routes for corpora: curated collections with permissions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query

from knowledge.model import NewFile, NewNote, RemovalResult
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.forms import read_corpus_file
from knowledge.surfaces.rest.framework.openapi import FORM_BODY, CorpusId, ResponseModel, errors
from knowledge.wire import AcceptedShape, CorpusesShape, CorpusShape, PermissionsShape
from knowledge.wire.collections import CorpusEditBody, CorpusListing, GrantBody, NewCorpusBody

router = APIRouter(tags=["corpuses"], prefix="/corpuses")


@router.get("")
async def corpora(engine: CallerEngine, wanted: Annotated[CorpusListing, Query()]) -> ResponseModel[CorpusesShape]:
    """List the corpora that the caller can read: own, shared, and approved public ones."""
    return CorpusesShape.from_page(
        await engine.corpora.list_page(wanted.category, wanted.approved_only, wanted.page, wanted.per_page)
    )


@router.post("", status_code=201, responses=errors(409, 415))
async def create(
    engine: CallerEngine, body: Annotated[NewCorpusBody, Body(default_factory=NewCorpusBody)]
) -> ResponseModel[CorpusShape]:
    """Create a corpus."""
    return CorpusShape.from_collection(await engine.corpora.create(body.to_new()))


@router.get("/{id}", responses=errors(404))
async def corpus(id: CorpusId, engine: CallerEngine) -> ResponseModel[CorpusShape]:
    """Get a corpus."""
    return CorpusShape.from_collection(await engine.corpora.get(id))


@router.patch("/{id}", responses=errors(404, 415))
async def edit(
    id: CorpusId, engine: CallerEngine, body: Annotated[CorpusEditBody, Body(default_factory=CorpusEditBody)]
) -> ResponseModel[CorpusShape]:
    """Update the description of a corpus; fields that are not sent are unchanged."""
    return CorpusShape.from_collection(await engine.corpora.edit(id, body.to_edit()))


@router.delete("/{id}", responses=errors(404))
async def remove(id: CorpusId, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Delete a corpus with its documents."""
    return await engine.corpora.remove(id)


@router.post("/{id}/upload", status_code=202, responses=errors(404, 409, 415), openapi_extra=FORM_BODY)
async def upload(
    engine: CallerEngine, new: Annotated[NewNote | NewFile, Depends(read_corpus_file, scope="function")]
) -> ResponseModel[AcceptedShape]:
    """Upload a file to a corpus; the response has the job that processes it."""
    return AcceptedShape.from_job(await engine.add(new))


@router.get("/{id}/permissions", responses=errors(404))
async def permissions(id: CorpusId, engine: CallerEngine) -> ResponseModel[PermissionsShape]:
    """List the permissions that the owner has granted."""
    return PermissionsShape(tuple(await engine.corpora.list_grants(id)))


@router.post("/{id}/permissions", responses=errors(404, 415))
async def grant(id: CorpusId, body: GrantBody, engine: CallerEngine) -> ResponseModel[PermissionsShape]:
    """Grant another account permission to read the corpus or to write to it."""
    await engine.corpora.grant(id, body.username, body.permission)
    return PermissionsShape(tuple(await engine.corpora.list_grants(id)))


@router.delete("/{id}/permissions", responses=errors(404, 415))
async def revoke(id: CorpusId, body: GrantBody, engine: CallerEngine) -> ResponseModel[PermissionsShape]:
    """Revoke the permission of an account; takes effect at once."""
    await engine.corpora.revoke_grant(id, body.username)
    return PermissionsShape(tuple(await engine.corpora.list_grants(id)))
