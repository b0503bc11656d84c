"""Timeouts for request bodies, and cancellation of work when the client disconnects."""

from __future__ import annotations

import asyncio
import time

import anyio
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import DeadlineExceeded
from knowledge.surfaces.http.connections import Connection, Connections, ConnectionState
from knowledge.surfaces.http.responses import json_error_response


async def cancel_on_disconnect(receive: Receive, work: anyio.CancelScope) -> None:
    """Cancel `work` when the client disconnects; the request body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()


STOPPING_SCOPE_KEY = "knowledge.stopping"


async def cancel_on_stop(scope: Scope, work: anyio.CancelScope) -> None:
    """Cancel `work` when the server stops, so that a stream without an end does not delay it."""
    stopping = scope.get(STOPPING_SCOPE_KEY)
    if isinstance(stopping, asyncio.Event):
        await stopping.wait()
        work.cancel()


MIN_BYTES_PER_SECOND = 1000
"""Minimum average rate of a request body; slower clients are taken for slowloris."""


class RequestDeadlines:
    """Answers 408 to request bodies that stall or are too slow (slowloris)."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        self._app, self._connections = app, connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope[STOPPING_SCOPE_KEY] = self._connections.stopping
        connection = self._connections.find_by_scope(scope)
        if connection is not None:
            connection.begin_request()
        if scope["type"] == "websocket":  # counts as busy until it is closed
            await self._app(scope, receive, send)
            return
        body = TimedRequestBody(scope, receive, send, connection, self._connections.limits.body_s)
        try:
            await self._app(scope, body.receive, body.send)
        except ClientDisconnect:
            pass
        finally:
            if connection is not None:
                connection.end_request()


class TimedRequestBody:
    """The body of one request; counts only the time spent waiting for the client, not the application's."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, connection: Connection | None, idle_s: float
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._connection, self._idle_seconds = connection, idle_s
        self._received, self._waited = 0, 0.0
        self._complete = self._response_started = self._timed_out = False

    async def receive(self) -> Message:
        if self._timed_out:
            return {"type": "http.disconnect"}
        if self._complete:
            return await self._receive()
        started = time.monotonic()
        left = self._idle_seconds + self._received / MIN_BYTES_PER_SECOND - self._waited
        try:
            async with asyncio.timeout(min(self._idle_seconds, left)):
                message = await self._receive_next()
        except TimeoutError:
            return await self._answer_timeout()
        self._waited += time.monotonic() - started
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body")
        return message

    async def send(self, message: Message) -> None:
        if not self._timed_out:
            self._response_started = True
            await self._send(message)

    async def _receive_next(self) -> Message:
        if self._connection is None:
            return await self._receive()
        self._connection.enter_state(ConnectionState.BODY)
        try:
            return await self._receive()
        finally:
            self._connection.enter_state(ConnectionState.BUSY)

    async def _answer_timeout(self) -> Message:
        self._timed_out = True
        if not self._response_started:
            response = json_error_response(
                DeadlineExceeded(
                    f"The request body timed out: no or too little data arrived in {self._idle_seconds:g} s",
                    hint="Send the request again over a faster connection, or raise KNOWLEDGE_BODY_TIMEOUT_S.",
                )
            )
            response.status_code = 408
            response.headers["connection"] = "close"
            await response(self._scope, self._receive, self._send)
        elif self._connection is not None:
            self._connection.transport.abort()
        return {"type": "http.disconnect"}
