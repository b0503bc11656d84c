"""Server-sent events: each as it happens, a heart-beat where nothing does; a client who leaves ends the work."""

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
from knowledge.surfaces.http.disconnect import until_gone
from knowledge.surfaces.http.responses import refusal_headers
from knowledge.toolsets.manager.errors import word
from knowledge.toolsets.manager.stream import Write, error_event

log = logging.getLogger(__name__)

BEAT_S = 15.0
"""After so long without an event a comment goes out, so that no proxy takes the silence for an end."""
MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Work: TypeAlias = Callable[[Write], Awaitable[None]]


def refused(error: KnowledgeError) -> Response:
    """A refusal before the first event: the HTTP status, and one event that says why."""
    headers = {**refusal_headers(error), **HEADERS, "x-mcp-error-code": word(error).code}
    return Response(encoded(error_event(error)), error.status, headers, MEDIA_TYPE)


def encoded(event: Json) -> bytes:
    # Escaped, since a passage may hold half a surrogate pair; and a line is ended by more characters than one thinks.
    return f"data: {json.dumps(event)}\n\n".encode()


class Events(Response):
    """What the work writes, as it writes it. An error ends the stream as its last event, or is the whole answer."""

    media_type = MEDIA_TYPE

    def __init__(self, work: Work) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]  # nobody knows it yet
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = _Line(self, send)
        async with anyio.create_task_group() as group:
            group.start_soon(until_gone, receive, group.cancel_scope)
            group.start_soon(line.beat)
            try:
                await self._work(line.write)
                await line.end()
            except Exception as error:
                await line.fail(_ours(error), scope, receive)
            group.cancel_scope.cancel()


class _Line:
    """The way to one client; its head goes out with the first event."""

    def __init__(self, response: Response, send: Send) -> None:
        self._response, self._send = response, send
        self._written = 0

    async def write(self, event: Json) -> None:
        if not self._written:
            await self._send({"type": "http.response.start", "status": 200, "headers": self._response.raw_headers})
        self._written += 1
        await self._body(encoded(event))

    async def beat(self) -> None:
        while True:
            before = self._written
            await anyio.sleep(BEAT_S)
            if before and before == self._written:
                await self._body(b": heart-beat\n\n")

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, error: KnowledgeError, scope: Scope, receive: Receive) -> None:
        if not self._written:
            await refused(error)(scope, receive, self._send)
            return
        await self.write(error_event(error))
        await self.end()

    async def _body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _ours(error: Exception) -> KnowledgeError:
    if isinstance(error, KnowledgeError):
        return error
    log.error("The stream failed", exc_info=error)
    return Internal("The query failed because of a fault in the server")
