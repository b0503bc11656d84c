"""POST /mcp/query/stream: contract 001's query as server-sent events, collection after collection."""

from __future__ import annotations

import json
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from knowledge.errors import Invalid, KnowledgeError, Malformed
from knowledge.model import Json
from knowledge.surfaces.http.sse import MEDIA_TYPE, Events, refused
from knowledge.surfaces.rest.framework.bodies import require_json, streaming
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.openapi import MEANINGS, OpenApi
from knowledge.surfaces.rest.framework.rate_classes import STREAM
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.toolsets.arguments import understand
from knowledge.toolsets.manager.fan_out import check_query
from knowledge.toolsets.manager.stream import stream
from knowledge.toolsets.manager.tools import tools


class StreamRoute(Route):
    """Refuses as the stream speaks: by one event."""

    def refuse(self, error: KnowledgeError) -> Response:
        return refused(error)


router = APIRouter(route_class=StreamRoute, tags=["search"])

MAX_BODY = 4 << 20
[QUERY] = [tool for tool in tools.tools if tool.name == "query_knowledge"]
"""What the stream takes is what the tool takes."""
TAKES: OpenApi = {"requestBody": {"required": True, "content": {"application/json": {"schema": QUERY.schema}}}}
EVENT: OpenApi = {"type": "object", "properties": {"data": {"type": "string", "description": "JSON."}}}
EVENTS: OpenApi = {"content": {MEDIA_TYPE: {"schema": EVENT}}}
ANSWERS: dict[int | str, OpenApi] = {
    200: {"description": "The events.", **EVENTS},
    **{
        status: {"description": MEANINGS[status], **EVENTS}
        for status in (400, 401, 403, 413, 415, 422, 429, 500, 503, 504)
    },
}


@router.post(STREAM, openapi_extra=TAKES, response_class=StreamingResponse, responses=ANSWERS)
async def query_stream(request: Request) -> Response:
    """Search collection after collection, and stream what each answers as server-sent events."""
    given = understand(QUERY.arguments, await _object(request))
    check_query(given["query"])
    return Events(partial(stream, engine_of(request), **given))


async def _object(request: Request) -> Json:
    require_json(request)
    async with streaming(request) as body:
        data = b"".join([piece async for piece in body.pieces(MAX_BODY)])
    try:
        parsed = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise Malformed("The body is not JSON", hint="Send one JSON object, encoded as UTF-8.") from error
    if not isinstance(parsed, dict):
        raise Invalid("The body must be a JSON object")
    return parsed
