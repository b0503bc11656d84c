"""Corpora: curated collections, the files that go into them, and whom their owners let in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from knowledge.errors import NoValidFiles
from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import content_type, read_json
from knowledge.surfaces.rest.framework.context import context_of, engine_of
from knowledge.surfaces.rest.framework.forms import check_mime, file_of, read_form
from knowledge.surfaces.rest.framework.manager_errors import WordedRoute
from knowledge.surfaces.rest.framework.openapi import UPLOADING, Number, answers, takes
from knowledge.surfaces.rest.jobs import add_form
from knowledge.wire import dump_accepted, dump_removed
from knowledge.wire.corpora import (
    CorpusEditBody,
    CorpusListing,
    GrantBody,
    NewCorpusBody,
    dump_corpora,
    dump_corpus,
    dump_grants,
    load_corpus_id,
)
from knowledge.wire.shapes import AcceptedShape, CorpusesShape, CorpusShape, PermissionsShape, RemovedShape

router = APIRouter(route_class=WordedRoute, tags=["corpuses"], prefix="/corpuses")


@router.get("", responses=answers(CorpusesShape))
async def corpora(request: Request, wanted: Annotated[CorpusListing, Query()]) -> Response:
    """List the corpora that the caller may read: own, granted, and public ones that are approved."""
    engine = engine_of(request)
    return answer(
        dump_corpora(await engine.corpora(wanted.category, wanted.approved_only, wanted.page, wanted.per_page))
    )


@router.post(
    "",
    status_code=201,
    openapi_extra=takes(NewCorpusBody),
    responses=answers(CorpusShape, 409, 415, status=201),
)
async def create(request: Request) -> Response:
    """Make a corpus."""
    body = await read_json(request, NewCorpusBody)
    return answer(dump_corpus(await engine_of(request).create_corpus(body.to_new())), 201)


@router.get("/{id}", responses=answers(CorpusShape, 404))
async def corpus(request: Request, id: Number) -> Response:
    """Show one corpus."""
    return answer(dump_corpus(await engine_of(request).corpus(load_corpus_id(id))))


@router.patch("/{id}", openapi_extra=takes(CorpusEditBody), responses=answers(CorpusShape, 404, 415))
async def edit(request: Request, id: Number) -> Response:
    """Change what a corpus says of itself; what is not given stays as it is."""
    ref = load_corpus_id(id)
    body = await read_json(request, CorpusEditBody)
    return answer(dump_corpus(await engine_of(request).edit_corpus(ref, body.to_edit())))


@router.delete("/{id}", responses=answers(RemovedShape, 404))
async def remove(request: Request, id: Number) -> Response:
    """Remove a corpus with everything that stands in it."""
    return answer(dump_removed(await engine_of(request).remove_corpus(load_corpus_id(id))))


@router.post(
    "/{id}/upload",
    status_code=202,
    openapi_extra=UPLOADING,
    responses=answers(AcceptedShape, 404, 409, 415, status=202),
)
async def upload(request: Request, id: Number) -> Response:
    """Accept a file for a corpus; its job goes on after the answer."""
    ref = load_corpus_id(id)
    await engine_of(request).corpus(ref)
    if content_type(request) != "multipart/form-data":
        raise NoValidFiles("No file was sent")
    async with read_form(request, context_of(request).max_file_bytes) as form:
        file = file_of(form)
        if file is None or not file.filename:
            raise NoValidFiles("No file was sent")
        check_mime(file)
        return answer(dump_accepted(await add_form(request, form, into=ref)), 202)


@router.get("/{id}/permissions", responses=answers(PermissionsShape, 404))
async def permissions(request: Request, id: Number) -> Response:
    """List whom the owner has let in."""
    return answer(dump_grants(await engine_of(request).grants(load_corpus_id(id))))


@router.post("/{id}/permissions", openapi_extra=takes(GrantBody), responses=answers(PermissionsShape, 404, 415))
async def grant(request: Request, id: Number) -> Response:
    """Let another account read the corpus, or write to it."""
    ref = load_corpus_id(id)
    body, engine = await read_json(request, GrantBody), engine_of(request)
    await engine.grant(ref, body.username, body.permission)
    return answer(dump_grants(await engine.grants(ref)))


@router.delete("/{id}/permissions", openapi_extra=takes(GrantBody), responses=answers(PermissionsShape, 404, 415))
async def revoke(request: Request, id: Number) -> Response:
    """Let an account in no more, from this moment on."""
    ref = load_corpus_id(id)
    body, engine = await read_json(request, GrantBody), engine_of(request)
    await engine.revoke_grant(ref, body.username)
    return answer(dump_grants(await engine.grants(ref)))
