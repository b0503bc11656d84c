"""Route for events: GET /events as server-sent events."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Annotated

import anyio
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from knowledge.errors import KnowledgeError, RateLimited
from knowledge.model.events import Event
from knowledge.surfaces.http.auth import caller_of, format_caller_id
from knowledge.surfaces.http.deadlines import cancel_on_disconnect, cancel_on_stop
from knowledge.surfaces.http.sse import MEDIA_TYPE, STREAM_HEADERS
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import OpenApi
from knowledge.wire.events import dump_event

router = APIRouter(tags=["events"])

MAX_STREAMS_PER_CALLER = 16
RETRY_SECONDS = 2
"""How long a browser waits before it connects again."""
UNKNOWN_POSITION = -1
"""For a Last-Event-ID that is no number of ours: what was missed cannot be known."""
EVENT_SCHEMA: OpenApi = {
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "id": {"type": "string", "description": "The number of a change."},
        "data": {"type": "string", "description": "JSON."},
    },
}
EVENT_RESPONSE: dict[int | str, OpenApi] = {
    200: {
        "description": "Events such as `hello`, `job` and `document`, each with JSON as data.",
        "content": {MEDIA_TYPE: {"schema": EVENT_SCHEMA}},
    }
}


@router.get("/events", response_class=StreamingResponse, responses=EVENT_RESPONSE)
async def events(
    request: Request,
    engine: CallerEngine,
    after: Annotated[int | None, Query(ge=0, description="Continue after the event with this id.")] = None,
    last_event_id: Annotated[str | None, Header(description="The same, as browsers send it; takes precedence.")] = None,
) -> Response:
    """Watch what changes, as server-sent events: first `hello` with the unfinished jobs, then each change.

    The data of each event is JSON: `hello` has `jobs`, `unfinished` (how many) and `seq`; `job` is a Job; `crawl` has
    `job_id`, `pages_done`, `pages_total` and `status`; `document` has `id`, `uid`, `change` and `collection`;
    `collection` has `id`, `uid`, `name` and `change`; `approval` has `id` and `uid` of a corpus that waits for approval
    or was judged, for its owner and for admins; `agent` is one of GET /agents; `refusal` is one of its refused
    attempts, for the operator alone; `reset` has nothing and means: read the lists again. An `id` is
    the number of a change. After a lost connection, what was missed is sent again, or `reset` if that is not possible.
    A stream ends when the key or the session does.
    """
    position = after
    if last_event_id is not None:
        position = int(last_event_id) if last_event_id.isdecimal() and len(last_event_id) < 19 else UNKNOWN_POSITION
    streams: Counter[str] = request.app.state.streams
    caller = format_caller_id(caller_of(request.scope))
    if streams[caller] >= MAX_STREAMS_PER_CALLER:
        raise RateLimited(
            f"There are {MAX_STREAMS_PER_CALLER} event streams open already",
            hint="Close one of them, for example in another tab.",
            retry_after=RETRY_SECONDS,
        )
    return WatchResponse(await engine.watch(position), streams, caller)


@contextmanager
def count_stream(streams: Counter[str], caller: str) -> Iterator[None]:
    streams[caller] += 1
    try:
        yield
    finally:
        streams[caller] -= 1
        if not streams[caller]:
            del streams[caller]


class WatchResponse(Response):
    """Sends events until the client disconnects, the watch ends or the server stops."""

    media_type = MEDIA_TYPE

    def __init__(self, watch: AsyncGenerator[Event, None], streams: Counter[str], caller: str) -> None:
        super().__init__(headers=STREAM_HEADERS)
        del self.headers["content-length"]  # unknown until the stream ends
        self._watch, self._streams, self._caller = watch, streams, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with count_stream(self._streams, self._caller):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with aclosing(self._watch), anyio.create_task_group() as group:
                group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
                group.start_soon(cancel_on_stop, scope, group.cancel_scope)
                await self._send_events(send)
                group.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b""})

    async def _send_events(self, send: Send) -> None:
        await send_part(send, f"retry: {RETRY_SECONDS * 1000}\n\n".encode())
        try:
            async for event in self._watch:
                await send_part(send, dump_event(event))
        except KnowledgeError:  # the caller may not watch any more, or the engine has gone; the next request says which
            return


async def send_part(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
