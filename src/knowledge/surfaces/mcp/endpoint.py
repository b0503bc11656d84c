"""The door for MCP over HTTP: one address for plain JSON-RPC, for sessions of the older era, and for the modern one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from knowledge.errors import KnowledgeError, RateLimited, TooLarge, Unavailable, UnsupportedFormat
from knowledge.model import CallerKind, Json, JsonValue
from knowledge.surfaces.http.auth import identity
from knowledge.surfaces.http.disconnect import until_gone
from knowledge.surfaces.http.responses import refusal_headers
from knowledge.surfaces.mcp import errors as mcp_errors
from knowledge.surfaces.mcp import exchange, jsonrpc
from knowledge.surfaces.mcp.request_context import Visit
from knowledge.surfaces.mcp.sessions import session_owner
from knowledge.toolsets.base import Voice

if TYPE_CHECKING:
    from knowledge.surfaces.mcp.routes import McpSurface

MAX_BODY = 4 << 20
ENOUGH_FOR_AN_ID = 1 << 16
"""How much of a request that will be turned away is read, so that the refusal can name its id."""


class Endpoint:
    """An ASGI application; a toolset fixed here cannot be chosen away by the request."""

    def __init__(self, surface: McpSurface, toolset: str | None = None) -> None:
        self._surface = surface
        self._toolset = toolset

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Some HTTP parsers keep the blanks that end a header's value, and then `Mcp-Name` does not equal the body.
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            _check_length(headers)
            visit = self._surface.admit(scope, headers, self._toolset)
        except KnowledgeError as error:
            await turn_away(error, receive, send, self._surface.voice(self._toolset))
            return
        visit.enter(scope)
        await self._route(visit, headers, scope, receive, send)

    async def _route(
        self, visit: Visit, headers: Mapping[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        version = headers.get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0])
        plain = "mcp-session-id" not in headers and version in HANDSHAKE_PROTOCOL_VERSIONS
        if scope["method"] != "POST" or not (plain or exchange.may_be_short(self._surface.server, visit, headers)):
            await self._hand_over(visit, version, scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            await _send_json(mcp_errors.turned_away(_too_large()), 413, {}, send)
            return
        if not plain:
            await self._exchange(visit, headers, body, scope, receive, send)
            return
        try:
            message = jsonrpc.parse(body)
        except ValueError as error:
            reply = jsonrpc.refusal(types.PARSE_ERROR, "Parse error", reason=str(error)[:200])
            await _send_json(reply.body or {}, reply.status, {}, send)
            return
        if _is_handshake(message, headers):
            await self._hand_over(visit, version, scope, _replaying(body, receive), send)
        else:
            await self._answer(visit, message, scope, receive, send)

    async def _hand_over(self, visit: Visit, version: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK speak: a session of the older era, or one exchange of the modern one."""
        if version in HANDSHAKE_PROTOCOL_VERSIONS:
            visit.start = self._surface.start  # a session stays open, and can be told what becomes of a task
        if visit.caller.kind is not CallerKind.LOCAL:  # a session belongs to the key that opened it
            token = AccessToken(token="-", client_id=identity(visit.caller), scopes=[])
            scope["user"] = AuthenticatedUser(token)
        answer = Explaining(visit, send, late=visit.is_limited and scope["method"] == "POST")
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._surface.manager.handle_request(scope, receive, answer)
        else:
            try:
                await self._surface.sessions.serve(session_owner(visit.caller, scope), scope, receive, answer)
            except (RateLimited, Unavailable) as error:
                await turn_away(error, receive, send, self._surface.voice(self._toolset))
                return
        await answer.finish()

    async def _answer(self, visit: Visit, message: JsonValue, scope: Scope, receive: Receive, send: Send) -> None:
        """The plain leg; a caller who hangs up stops the work, as in the modern era."""
        visit.plain = True
        content_type = Headers(scope=scope).get("content-type", "application/json")
        if not content_type.lower().startswith("application/json"):
            error = UnsupportedFormat("The body must be JSON", hint="Send 'Content-Type: application/json'.")
            await _send_json(mcp_errors.turned_away(error), error.status, refusal_headers(error), send)
            return
        work = jsonrpc.answer(self._surface.server, visit, message, Request(scope))
        await _send_reply(await _unless_gone(work, receive), visit, send)

    async def _exchange(
        self, visit: Visit, headers: Mapping[str, str], body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """A modern call that only reads; whatever is odd about it is the SDK's to judge."""
        message: JsonValue = None
        with suppress(ValueError):
            message = jsonrpc.parse(body)
        if exchange.is_cancelling(message):
            await self._answer(visit, message, scope, receive, send)
            return
        request = Request(scope)
        route = exchange.route_of(message, headers, request)
        if route is None:
            await self._hand_over(visit, headers["mcp-protocol-version"], scope, _replaying(body, receive), send)
            return
        work = exchange.answer(self._surface.server, message, route, request)
        await _send_reply(await _unless_gone(work, receive), visit, send)


class Explaining:
    """Passes the SDK's answer on, with our headers; an error gets its type and details.

    The head waits for the first piece where `late`: what is left of an allowance is known only when the call is made.
    """

    def __init__(self, visit: Visit, send: Send, *, late: bool) -> None:
        self._visit, self._send, self._late = visit, send, late
        self._start: Message | None = None
        self._body = b""
        self._streaming = False

    async def finish(self) -> None:
        """End a stream that a stop of the server cut short."""
        start, self._start = self._start, None
        if start is not None:
            await self._send(self._with_ours(start))
        if start is not None or self._streaming:
            await self._send({"type": "http.response.body", "body": b""})

    async def __call__(self, message: Message) -> None:
        self._streaming = message["type"] == "http.response.start" or bool(message.get("more_body"))
        if message["type"] == "http.response.start":
            if self._late or message["status"] >= 400:
                self._start, self._streaming = message, False
                return
            message = self._with_ours(message)
        elif self._start is not None:
            if self._start["status"] >= 400:
                await self._explain(self._start, message)
                return
            start, self._start = self._start, None
            await self._send(self._with_ours(start))
        await self._send(message)

    def _with_ours(self, start: Message) -> Message:
        ours = _raw(self._visit.headers)
        return {**start, "headers": [*start["headers"], *ours]} if ours else start

    async def _explain(self, start: Message, message: Message) -> None:
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        start, self._start = self._with_ours(start), None
        body = mcp_errors.explain_bytes(start["status"], self._body)
        kept = [pair for pair in start["headers"] if pair[0].lower() not in (b"content-length", b"content-type")]
        described = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": [*kept, *described]})
        await self._send({"type": "http.response.body", "body": body})


async def turn_away(error: KnowledgeError, receive: Receive, send: Send, voice: Voice | None = None) -> None:
    """Refuse a request before it reaches the protocol, in the protocol's form and in a contract's own words."""
    request_id = None if isinstance(error, TooLarge) else await _request_id(receive)
    body, headers = mcp_errors.turned_away(error, request_id), refusal_headers(error)
    if voice is not None:
        refused = voice(error)
        body = mcp_errors.refused_body(refused, request_id)
        headers["x-mcp-error-code"] = refused.code
    await _send_json(body, error.status, headers, send)


def _is_handshake(message: JsonValue, headers: Mapping[str, str]) -> bool:
    """Whether the SDK is to answer: an `initialize` from a client that can read a stream, or a modern envelope."""
    if not isinstance(message, dict):
        return False
    if message.get("method") == "initialize":
        accept = headers.get("accept", "")
        return "text/event-stream" in accept and ("application/json" in accept or "*/*" in accept)
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta


def _too_large() -> TooLarge:
    return TooLarge(
        f"The request is larger than {MAX_BODY >> 20} MiB", hint="Send less at once.", max_bytes=MAX_BODY
    )  # fmt: skip


def _check_length(headers: Mapping[str, str]) -> None:
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BODY:
        raise _too_large()


async def _read(receive: Receive) -> bytes | None:
    """The body; None as soon as it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return bytes(body)


async def _request_id(receive: Receive) -> JsonValue:
    """The id of a request that is turned away, where it is short enough to be looked at."""
    body, more = b"", True
    while more and len(body) < ENOUGH_FOR_AN_ID:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
    with suppress(ValueError):
        parsed = jsonrpc.parse(body)
        if isinstance(parsed, dict) and jsonrpc.is_id(parsed.get("id")):
            return parsed.get("id")
    return None


def _replaying(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def replay() -> Message:
        return {"type": "http.request", "body": waiting.pop(), "more_body": False} if waiting else await receive()

    return replay


async def _unless_gone(work: Awaitable[jsonrpc.Reply], receive: Receive) -> jsonrpc.Reply | None:
    """What the work comes to; None when the caller hung up, which stops it."""
    replies: list[jsonrpc.Reply] = []
    async with anyio.create_task_group() as group:
        group.start_soon(until_gone, receive, group.cancel_scope)
        replies.append(await work)
        group.cancel_scope.cancel()
    return replies[0] if replies else None


async def _send_reply(reply: jsonrpc.Reply | None, visit: Visit, send: Send) -> None:
    if reply is None:
        return
    if reply.body is None:
        await _send(b"", reply.status, visit.headers, send)
    else:
        await _send_json(reply.body, reply.status, visit.headers, send)


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _send_json(body: Json, status: int, headers: Mapping[str, str], send: Send) -> None:
    # Escaped, because half a character in a caller's id can be echoed in no other way.
    await _send(json.dumps(body).encode(), status, {**headers, "content-type": "application/json"}, send)


async def _send(body: bytes, status: int, headers: Mapping[str, str], send: Send) -> None:
    length = {"content-length": str(len(body))}
    await send({"type": "http.response.start", "status": status, "headers": _raw({**headers, **length})})
    await send({"type": "http.response.body", "body": body})
