"""PATCH /notes/{id}."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.openapi import Id, answers, takes
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.wire import NoteBody, dump_document, load_ref
from knowledge.wire.shapes import DocumentShape

router = APIRouter(route_class=Route, tags=["notes"])


@router.patch("/notes/{id}", openapi_extra=takes(NoteBody), responses=answers(DocumentShape, 404, 409, 415))
async def update(request: Request, id: Id) -> Response:
    """Give a note another text; answered when it can be found."""
    body = await read_json(request, NoteBody)
    return answer(dump_document(await engine_of(request).update_note(load_ref(id), body.text)))
