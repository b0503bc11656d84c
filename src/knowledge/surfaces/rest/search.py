"""POST /search."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.openapi import answers, takes
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.wire import SearchBody, dump_answer
from knowledge.wire.shapes import AnswerShape

router = APIRouter(route_class=Route, tags=["search"])


@router.post("/search", openapi_extra=takes(SearchBody), responses=answers(AnswerShape, 404, 415))
async def search(request: Request) -> Response:
    """Find the passages that answer a question, best first."""
    body = await read_json(request, SearchBody)
    found = await engine_of(request).search(body.to_query())
    return answer(dump_answer(found, body.query))
