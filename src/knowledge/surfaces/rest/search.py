"""Routes for search: POST /search, and contract 001's query as server-sent events."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import StreamingResponse

from knowledge.surfaces.http.sse import MEDIA_TYPE, EventStreamResponse
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine
from knowledge.surfaces.rest.framework.middleware import charge_session_search
from knowledge.surfaces.rest.framework.openapi import (
    COMMON_STATUSES,
    STATUS_DESCRIPTIONS,
    OpenApi,
    ResponseModel,
    errors,
)
from knowledge.toolsets.arguments import parse_arguments
from knowledge.toolsets.manager.fan_out import check_query
from knowledge.toolsets.manager.stream import stream_query
from knowledge.toolsets.manager.tools import tools
from knowledge.wire import AnswerShape, SearchBody, SuggestionsShape

router = APIRouter(tags=["search"])
stream_router = APIRouter(tags=["search"])

[QUERY] = [tool for tool in tools.tools if tool.name == "query_knowledge"]
"""The stream has the same parameters as the tool."""
QUERY_BODY: OpenApi = {"requestBody": {"required": True, "content": {"application/json": {"schema": QUERY.schema}}}}
EVENT: OpenApi = {"type": "object", "properties": {"data": {"type": "string", "description": "JSON."}}}
EVENTS: dict[int | str, OpenApi] = {
    status: {"description": STATUS_DESCRIPTIONS.get(status, "The events."), "content": {MEDIA_TYPE: {"schema": EVENT}}}
    for status in (200, 415, *COMMON_STATUSES)
}


@router.post("/search", responses=errors(404, 415), dependencies=[Depends(charge_session_search)])
async def search(body: SearchBody, engine: CallerEngine) -> ResponseModel[AnswerShape]:
    """Search for passages, best first."""
    return AnswerShape.from_answer(await engine.search(body.to_query()), body.query)


@router.get("/suggest")
async def suggest(
    engine: CallerEngine, q: Annotated[str, Query(max_length=200, description="What was typed.")]
) -> ResponseModel[SuggestionsShape]:
    """Suggest titles, headings, collections and tags that begin with a text, at most eight."""
    return SuggestionsShape(tuple(await engine.suggest(q)))


@stream_router.post(
    "/mcp/query/stream", response_class=StreamingResponse, responses=EVENTS, openapi_extra=QUERY_BODY
)  # fmt: skip
async def query_stream(
    engine: CallerEngine, context: AppContext, arguments: Annotated[dict[str, Any], Body(default_factory=dict)]
) -> EventStreamResponse:
    """Search one collection after another and stream the results of each as server-sent events."""
    given = parse_arguments(QUERY.arguments, arguments)
    check_query(given["query"])
    given["trusted_only"] = given["trusted_only"] or context.trusted_only
    return EventStreamResponse(partial(stream_query, engine, **given))
