"""Corpora: curated collections, the files that go into them, and whom their owners let in."""

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
    """List the corpora that the caller may read: own, granted, and public ones that are approved."""
    return CorpusesShape.from_page(
        await engine.corpora.list_page(wanted.category, wanted.approved_only, wanted.page, wanted.per_page)
    )


@router.post("", status_code=201, responses=errors(409, 415))
async def create(
    engine: CallerEngine, body: Annotated[NewCorpusBody, Body(default_factory=NewCorpusBody)]
) -> ResponseModel[CorpusShape]:
    """Make a corpus."""
    return CorpusShape.from_collection(await engine.corpora.create(body.to_new()))


@router.get("/{id}", responses=errors(404))
async def corpus(id: CorpusId, engine: CallerEngine) -> ResponseModel[CorpusShape]:
    """Show one corpus."""
    return CorpusShape.from_collection(await engine.corpora.get(id))


@router.patch("/{id}", responses=errors(404, 415))
async def edit(
    id: CorpusId, engine: CallerEngine, body: Annotated[CorpusEditBody, Body(default_factory=CorpusEditBody)]
) -> ResponseModel[CorpusShape]:
    """Change what a corpus says of itself; what is not given stays as it is."""
    return CorpusShape.from_collection(await engine.corpora.edit(id, body.to_edit()))


@router.delete("/{id}", responses=errors(404))
async def remove(id: CorpusId, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Remove a corpus with everything that stands in it."""
    return await engine.corpora.remove(id)


@router.post("/{id}/upload", status_code=202, responses=errors(404, 409, 415), openapi_extra=FORM_BODY)
async def upload(
    engine: CallerEngine, new: Annotated[NewNote | NewFile, Depends(read_corpus_file, scope="function")]
) -> ResponseModel[AcceptedShape]:
    """Accept a file for a corpus; its job goes on after the answer."""
    return AcceptedShape.from_job(await engine.add(new))


@router.get("/{id}/permissions", responses=errors(404))
async def permissions(id: CorpusId, engine: CallerEngine) -> ResponseModel[PermissionsShape]:
    """List whom the owner has let in."""
    return PermissionsShape(tuple(await engine.corpora.list_grants(id)))


@router.post("/{id}/permissions", responses=errors(404, 415))
async def grant(id: CorpusId, body: GrantBody, engine: CallerEngine) -> ResponseModel[PermissionsShape]:
    """Let another account read the corpus, or write to it."""
    await engine.corpora.grant(id, body.username, body.permission)
    return PermissionsShape(tuple(await engine.corpora.list_grants(id)))


@router.delete("/{id}/permissions", responses=errors(404, 415))
async def revoke(id: CorpusId, body: GrantBody, engine: CallerEngine) -> ResponseModel[PermissionsShape]:
    """Let an account in no more, from this moment on."""
    await engine.corpora.revoke_grant(id, body.username)
    return PermissionsShape(tuple(await engine.corpora.list_grants(id)))
