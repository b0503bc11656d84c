"""MCP over HTTP: one ASGI endpoint for plain JSON-RPC, sessions (up to 2025-11-25) and stateless MCP (2026-07-28)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from contextlib import suppress

import anyio
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from knowledge.engine.permissions import insufficient_scope_error
from knowledge.errors import (
    KnowledgeError,
    McpSessionNotFound,
    MethodNotAllowed,
    NotFound,
    RateLimited,
    TooLarge,
    Unavailable,
    UnsupportedFormat,
)
from knowledge.model import Caller, CallerKind, Json, JsonValue
from knowledge.model.oauth import OAuthScope
from knowledge.surfaces.http.auth import format_caller_id
from knowledge.surfaces.http.deadlines import cancel_on_disconnect
from knowledge.surfaces.http.responses import error_headers
from knowledge.surfaces.mcp import errors as mcp_errors
from knowledge.surfaces.mcp import jsonrpc
from knowledge.surfaces.mcp.request_context import SCOPE_KEY, McpRequest
from knowledge.surfaces.mcp.sessions import find_session_owner
from knowledge.surfaces.mcp.surface import MAX_BODY_BYTES, McpSurface
from knowledge.toolsets.base import ErrorFormatter

MAX_ID_SEARCH_BYTES = 1 << 16
"""Bytes of a rejected request that are read to find its id."""


LEGACY_SSE_MESSAGE = "The older HTTP+SSE transport is not served here; use Streamable HTTP at "
LEGACY_SSE_HINT = (
    "Set the transport of the client to 'http' (also called 'streamable-http') and its URL to this address."
)


class McpEndpoint:
    """An ASGI application; a toolset given here cannot be changed by the request."""

    def __init__(self, surface: McpSurface, toolset: str | None = None) -> None:
        self._surface = surface
        self._toolset = toolset

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Some HTTP parsers keep trailing whitespace of header values, and then `Mcp-Name` differs from the body.
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            _check_length(headers)
            mcp_request = self._surface.admit_request(scope, headers, self._toolset)
        except KnowledgeError as error:
            self._surface.report_refusal(scope, error)
            await refuse_request(error, receive, send, self._surface.find_error_formatter(self._toolset))
            return
        scope[SCOPE_KEY] = mcp_request
        scopes = mcp_request.tool_call.caller.scopes
        if scopes is not None and scope["method"] == "POST":
            body = await _read_body(receive)
            problem = _too_large_error() if body is None else self._find_missing_scope(body, scopes)
            receive = _replay_body(body or b"", receive)
            if problem is not None:
                await refuse_request(problem, receive, send, self._surface.find_error_formatter(self._toolset))
                return
        await self._dispatch(mcp_request, headers, scope, receive, send)

    def _find_missing_scope(self, body: bytes, scopes: frozenset[str]) -> KnowledgeError | None:
        """Return the error for a tool call that the access token of OAuth does not permit.

        Clients ask for another scope only if the HTTP status is 403; the engine checks the scope as well.
        """
        try:
            parsed = jsonrpc.parse(body)
        except ValueError:
            return None
        for message in parsed if isinstance(parsed, list) else [parsed]:
            is_call = isinstance(message, dict) and message.get("method") == "tools/call"
            params = message.get("params") if isinstance(message, dict) and is_call else None
            name = params.get("name") if isinstance(params, dict) else None
            tool = self._surface.server.registry.by_name.get(name) if isinstance(name, str) else None
            needed = OAuthScope.WRITE if tool is not None and not tool.read_only else OAuthScope.READ
            if needed not in scopes:
                return insufficient_scope_error(needed)
        return None

    async def _dispatch(
        self, mcp_request: McpRequest, headers: Mapping[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        version = headers.get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0])
        plain = "mcp-session-id" not in headers and version in HANDSHAKE_PROTOCOL_VERSIONS
        if plain and scope["method"] == "GET" and "text/event-stream" in headers.get("accept", ""):
            address = str(Request(scope).url.replace(query=""))
            error = MethodNotAllowed(LEGACY_SSE_MESSAGE + address, hint=LEGACY_SSE_HINT, allow="POST")
            self._surface.report_refusal(scope, error)
            await refuse_request(error, receive, send)
            return
        # The SDK drops all notifications of the stateless protocol, and `tools/cancel` may be one.
        if scope["method"] != "POST" or not (plain or headers.get("mcp-method") == jsonrpc.CANCEL_METHOD):
            await self._delegate_to_sdk(mcp_request, version, scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            await _send_json(mcp_errors.format_error_body(_too_large_error()), 413, {}, send)
            return
        message: JsonValue = None
        try:
            message = jsonrpc.parse(body)
        except ValueError as error:
            if plain:
                reply = jsonrpc.make_error_reply(types.PARSE_ERROR, "Parse error", reason=str(error)[:200])
                await _send_json(reply.body or {}, reply.status, {}, send)
                return
        if _is_handshake(message, headers) if plain else not jsonrpc.is_cancel_notification(message):
            await self._delegate_to_sdk(mcp_request, version, scope, _replay_body(body, receive), send, message)
        else:
            await self._answer_plain(mcp_request, message, scope, receive, send)

    async def _delegate_to_sdk(
        self,
        mcp_request: McpRequest,
        version: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        message: JsonValue = None,
    ) -> None:
        """Let the SDK answer: a request of a session, or one stateless exchange; `message` is a parsed handshake."""
        caller = mcp_request.tool_call.caller
        if caller.kind is not CallerKind.LOCAL:  # the SDK binds sessions to this user
            scope["user"] = AuthenticatedUser(AccessToken(token="-", client_id=format_caller_id(caller), scopes=[]))
        is_post = scope["method"] == "POST"
        body = RequestBody(receive)
        answer = SdkResponseFilter(
            mcp_request, send, defer_head=mcp_request.acquire is not None and is_post, body=body if is_post else None
        )
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._surface.manager.handle_request(scope, body.receive, answer)
            await answer.finish()
            return
        mcp_request.start_task = self._surface.start_task  # sessions receive progress of background tasks
        try:
            await self._serve_session(caller, message, scope, body, answer)
            await answer.finish()
        except McpSessionNotFound as error:
            await _send_session_not_found(error, await body.read_request_id() if is_post else None, send)
        except (RateLimited, Unavailable) as error:
            await refuse_request(error, body.receive, send, self._surface.find_error_formatter(self._toolset))

    async def _serve_session(
        self, caller: Caller, message: JsonValue, scope: Scope, body: RequestBody, answer: SdkResponseFilter
    ) -> None:
        """Open a session, or answer a request of one."""
        sessions, owner = self._surface.sessions, find_session_owner(caller, scope)
        if isinstance(message, dict) and message.get("method") == "initialize":
            await sessions.initialize(owner, _requested_version(message), scope, body.receive, answer)
        else:
            await sessions.serve(owner, scope, body.receive, answer)

    async def _answer_plain(
        self, mcp_request: McpRequest, message: JsonValue, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer plain JSON-RPC; cancel the work if the caller disconnects."""
        mcp_request.is_plain = True
        content_type = Headers(scope=scope).get("content-type", "application/json")
        if not content_type.lower().startswith("application/json"):
            error = UnsupportedFormat("The body must be JSON", hint="Send 'Content-Type: application/json'.")
            await _send_json(mcp_errors.format_error_body(error), error.status, error_headers(error), send)
            return
        work = jsonrpc.answer_message(self._surface.server, mcp_request, message, Request(scope))
        await _send_reply(await _run_until_disconnect(work, receive), mcp_request, send)


class LegacySseEndpoint:
    """An ASGI application at the conventional paths of the HTTP+SSE transport, which names the right address."""

    def __init__(self, surface: McpSurface) -> None:
        self._surface = surface

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = str(Request(scope).url.replace(path="/mcp", query=""))
        error = NotFound(LEGACY_SSE_MESSAGE + address, hint=LEGACY_SSE_HINT)
        self._surface.report_refusal(scope, error)
        await refuse_request(error, receive, send)


class SdkResponseFilter:
    """Forwards the SDK's response with our headers added, and adds type and details to errors.

    With `defer_head` the head waits for the first body part, because the rate-limit headers are known only once the
    call is made.
    """

    def __init__(
        self, mcp_request: McpRequest, send: Send, *, defer_head: bool, body: RequestBody | None = None
    ) -> None:
        self._mcp_request, self._send, self._defer_head = mcp_request, send, defer_head
        self._request_body = body
        self._start: Message | None = None
        self._body = b""
        self._streaming = False

    async def finish(self) -> None:
        """End a response that a server shutdown interrupted."""
        start, self._start = self._start, None
        if start is not None:
            await self._send(self._add_headers(start))
        if start is not None or self._streaming:
            await self._send({"type": "http.response.body", "body": b""})

    async def __call__(self, message: Message) -> None:
        self._streaming = message["type"] == "http.response.start" or bool(message.get("more_body"))
        if message["type"] == "http.response.start":
            if self._defer_head or message["status"] >= 400:
                self._start, self._streaming = message, False
                return
            message = self._add_headers(message)
        elif self._start is not None:
            if self._start["status"] >= 400:
                await self._explain(self._start, message)
                return
            start, self._start = self._start, None
            await self._send(self._add_headers(start))
        if _answers_cancelled_request(message.get("body", b"")):
            message = {**message, "body": b""}
        await self._send(message)

    def _add_headers(self, start: Message) -> Message:
        ours = _encode_headers(self._mcp_request.headers)
        return {**start, "headers": [*start["headers"], *ours]} if ours else start

    async def _explain(self, start: Message, message: Message) -> None:
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        start, self._start = self._add_headers(start), None
        request_id = None if self._request_body is None else await self._request_body.read_request_id()
        body = mcp_errors.explain_error_body(start["status"], self._body, request_id)
        kept = [pair for pair in start["headers"] if pair[0].lower() not in (b"content-length", b"content-type")]
        described = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": [*kept, *described]})
        await self._send({"type": "http.response.body", "body": body})


def _answers_cancelled_request(event: bytes) -> bool:
    """Return whether an SSE event answers a request that the client has cancelled.

    The specification forbids that; the SDK ends the stream of a cancelled request with an error nevertheless.
    """
    if not (event.startswith(b"event: message") and b'"code":%d' % REQUEST_CANCELLED in event):
        return False
    with suppress(ValueError, AttributeError):
        data = b"".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))
        return bool(json.loads(data).get("error", {}).get("code") == REQUEST_CANCELLED)
    return False


class RequestBody:
    """Records the beginning of a request's body while the SDK reads it, so that an error can name the request's id."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._start = b""
        self._complete = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            if len(self._start) < MAX_ID_SEARCH_BYTES:
                self._start += message.get("body", b"")
            self._complete = not message.get("more_body", False)
        else:
            self._complete = True
        return message

    async def read_request_id(self) -> JsonValue:
        """Return the id of the request, or None if it is malformed or its body too large."""
        while not self._complete and len(self._start) < MAX_ID_SEARCH_BYTES:
            await self.receive()
        return _find_request_id(self._start)


async def refuse_request(
    error: KnowledgeError, receive: Receive, send: Send, format_error: ErrorFormatter | None = None
) -> None:
    """Reject a request before dispatch with a JSON-RPC error, worded by the contract's formatter if there is one."""
    request_id = None if isinstance(error, TooLarge) else await RequestBody(receive).read_request_id()
    body, headers = mcp_errors.format_error_body(error, request_id), error_headers(error)
    if format_error is not None:
        refusal = format_error(error)
        body = mcp_errors.format_refusal_body(refusal, request_id)
        headers["x-mcp-error-code"] = refusal.code
    await _send_json(body, error.status, headers, send)


async def _send_session_not_found(error: McpSessionNotFound, request_id: JsonValue, send: Send) -> None:
    """Send the code and text of the SDK, which clients know."""
    data: Json = {"error_type": error.code, "details": {"hint": error.hint}}
    reply = mcp_errors.make_error_body(types.INVALID_REQUEST, str(error), data, request_id)
    await _send_json(reply, error.status, error_headers(error), send)


def _is_handshake(message: JsonValue, headers: Mapping[str, str]) -> bool:
    """Return whether the SDK answers: `initialize` from a client that accepts SSE, or a stateless request."""
    if not isinstance(message, dict):
        return False
    if message.get("method") == "initialize":
        accept = headers.get("accept", "")
        return "text/event-stream" in accept and ("application/json" in accept or "*/*" in accept)
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta


def _too_large_error() -> TooLarge:
    return TooLarge(
        f"The request is larger than {MAX_BODY_BYTES >> 20} MiB",
        hint="Send a smaller request; upload large files in parts.",
        max_bytes=MAX_BODY_BYTES,
    )


def _check_length(headers: Mapping[str, str]) -> None:
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise _too_large_error()


async def _read_body(receive: Receive) -> bytes | None:
    """Read the body; return None as soon as it exceeds MAX_BODY_BYTES."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _requested_version(message: Json) -> JsonValue:
    params = message.get("params")
    return params.get("protocolVersion") if isinstance(params, dict) else None


def _find_request_id(body: bytes) -> JsonValue:
    with suppress(ValueError):
        parsed = jsonrpc.parse(body)
        if isinstance(parsed, dict) and jsonrpc.is_valid_id(parsed.get("id")):
            return parsed.get("id")
    return None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    pending = [body]

    async def replay() -> Message:
        return {"type": "http.request", "body": pending.pop(), "more_body": False} if pending else await receive()

    return replay


async def _run_until_disconnect(work: Awaitable[jsonrpc.Reply], receive: Receive) -> jsonrpc.Reply | None:
    """Return the reply; cancel the work and return None if the caller disconnects."""
    replies: list[jsonrpc.Reply] = []
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
        replies.append(await work)
        group.cancel_scope.cancel()
    return replies[0] if replies else None


async def _send_reply(reply: jsonrpc.Reply | None, mcp_request: McpRequest, send: Send) -> None:
    if reply is None:
        return
    if reply.body is None:
        await _send_response(b"", reply.status, mcp_request.headers, send)
    else:
        await _send_json(reply.body, reply.status, mcp_request.headers, send)


def _encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _send_json(body: Json, status: int, headers: Mapping[str, str], send: Send) -> None:
    # ASCII-escaped, because a lone surrogate in the caller's id cannot be encoded as UTF-8.
    await _send_response(json.dumps(body).encode(), status, {**headers, "content-type": "application/json"}, send)


async def _send_response(body: bytes, status: int, headers: Mapping[str, str], send: Send) -> None:
    length = {"content-length": str(len(body))}
    await send({"type": "http.response.start", "status": status, "headers": _encode_headers({**headers, **length})})
    await send({"type": "http.response.body", "body": body})
