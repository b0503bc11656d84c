"""Server-sent events with heartbeats; a disconnect of the client cancels the work."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from knowledge.errors import Internal, KnowledgeError
from knowledge.model import Json
from knowledge.surfaces.http.deadlines import cancel_on_disconnect
from knowledge.surfaces.http.responses import error_headers
from knowledge.toolsets.manager.errors import find_wording
from knowledge.toolsets.manager.stream import Write, make_error_event

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
"""Interval of the heartbeat comments that keep proxies from closing an idle event stream."""
MEDIA_TYPE = "text/event-stream"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

EventProducer: TypeAlias = Callable[[Write], Awaitable[None]]


def error_event_response(error: KnowledgeError) -> Response:
    """Build the response for an error before the first event: its HTTP status and one error event."""
    headers = {**error_headers(error), **STREAM_HEADERS, "x-mcp-error-code": find_wording(error).code}
    return Response(encode_event(make_error_event(error)), error.status, headers, MEDIA_TYPE)


def encode_event(event: Json) -> bytes:
    # ASCII-escaped, because a chunk may contain a lone surrogate or a Unicode line separator.
    return f"data: {json.dumps(event)}\n\n".encode()


class EventStreamResponse(Response):
    """Streams the events that `work` writes; an error is the last event, or the whole response if it is the first."""

    media_type = MEDIA_TYPE

    def __init__(self, work: EventProducer) -> None:
        super().__init__(headers=STREAM_HEADERS)
        del self.headers["content-length"]  # unknown until the stream ends
        self._produce = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = _EventWriter(self, send)
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
            group.start_soon(writer.send_heartbeats)
            try:
                await self._produce(writer.write)
                await writer.finish()
            except Exception as error:
                await writer.send_error(_to_knowledge_error(error), scope, receive)
            group.cancel_scope.cancel()


class _EventWriter:
    """Writes events to one client; sends the response head with the first event."""

    def __init__(self, response: Response, send: Send) -> None:
        self._response, self._send = response, send
        self._events_written = 0

    async def write(self, event: Json) -> None:
        if not self._events_written:
            await self._send({"type": "http.response.start", "status": 200, "headers": self._response.raw_headers})
        self._events_written += 1
        await self._send_body(encode_event(event))

    async def send_heartbeats(self) -> None:
        while True:
            before = self._events_written
            await anyio.sleep(HEARTBEAT_SECONDS)
            if before and before == self._events_written:
                await self._send_body(b": heart-beat\n\n")

    async def finish(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def send_error(self, error: KnowledgeError, scope: Scope, receive: Receive) -> None:
        if not self._events_written:
            await error_event_response(error)(scope, receive, self._send)
            return
        await self.write(make_error_event(error))
        await self.finish()

    async def _send_body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _to_knowledge_error(error: Exception) -> KnowledgeError:
    if isinstance(error, KnowledgeError):
        return error
    log.error("the event stream failed", exc_info=error)
    return Internal("The query failed because of an internal server error")
