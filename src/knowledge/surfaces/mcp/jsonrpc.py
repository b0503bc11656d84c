"""Answers plain JSON-RPC sent by one POST without handshake, session or `Accept` header, as curl sends it."""

# ruff: noqa: ARG002 - PlainContext implements an SDK protocol whose arguments it does not need

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data, serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import MessageMetadata, ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from pydantic import ValidationError
from starlette.requests import Request

from knowledge.model import Json, JsonValue
from knowledge.surfaces.mcp import errors as mcp_errors
from knowledge.surfaces.mcp.message_stream import PLAIN_PROTOCOL_VERSION
from knowledge.surfaces.mcp.request_context import McpRequest
from knowledge.surfaces.mcp.server import KnowledgeServer

HTTP_STATUS_BY_CODE = {types.PARSE_ERROR: 400, types.INVALID_REQUEST: 400}
CANCEL_METHOD = "tools/cancel"


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP status and body; a notification is answered without a body."""

    status: int
    body: Json | None


@dataclass(slots=True)
class PlainContext:
    """The SDK's dispatch context for a single POST: drops notifications and progress, and cannot send requests."""

    transport: TransportContext
    request_id: Any
    message_metadata: MessageMetadata
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)
    can_send_request: bool = False

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        return None

    async def progress(
        self,
        progress: float,
        total: float | None = None,
        message: str | None = None,
    ) -> None:
        return None


def parse(body: bytes) -> JsonValue:
    """Parse a JSON body; raise ValueError for invalid JSON, NaN, Infinity and excessive nesting."""
    try:
        return cast(JsonValue, json.loads(body, parse_constant=_reject_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def describe_malformed(message: JsonValue) -> str | None:
    """Return why a message is not a valid JSON-RPC request, or None if it is valid."""
    if isinstance(message, list):
        return "Invalid Request: send one request at a time"
    if not isinstance(message, dict):
        return "Invalid Request: a request is a JSON object"
    if message.get("jsonrpc") != "2.0":
        return 'Invalid Request: jsonrpc must be "2.0"'
    if not isinstance(message.get("method"), str):
        return "Invalid Request: method must be a string"
    if not is_valid_id(message.get("id")):
        return "Invalid Request: id must be a string or a number"
    return None


def refuse_malformed(message: JsonValue) -> Reply | None:
    """Return the error reply to an invalid request, or None if the request is valid."""
    request_id = message.get("id") if isinstance(message, dict) else None
    if (reason := describe_malformed(message)) is not None:
        return make_error_reply(types.INVALID_REQUEST, reason, request_id if is_valid_id(request_id) else None)
    params = message.get("params") if isinstance(message, dict) else None
    if params is not None and not isinstance(params, dict):
        return make_error_reply(types.INVALID_PARAMS, "Invalid params: params must be an object", request_id)
    return None


def parse_message(raw: str) -> types.JSONRPCMessage | Reply:
    """Parse one message of a WebSocket or stdio connection; return an error reply if it is invalid."""
    try:
        parsed = parse(raw.encode("utf-8", "replace"))
    except ValueError:
        return make_error_reply(types.PARSE_ERROR, "Parse error")
    is_response = isinstance(parsed, dict) and "method" not in parsed and ("result" in parsed or "error" in parsed)
    reply = None if is_response else refuse_malformed(parsed)
    try:
        return reply or types.jsonrpc_message_adapter.validate_json(raw, by_name=False)
    except ValidationError:
        return make_error_reply(types.INVALID_REQUEST, "Invalid Request")


def is_cancel_notification(message: JsonValue) -> bool:
    """Return whether a message is `tools/cancel` sent as a notification."""
    return isinstance(message, dict) and message.get("method") == CANCEL_METHOD and "id" not in message


def is_valid_id(value: JsonValue) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


async def answer_message(
    server: KnowledgeServer, mcp_request: McpRequest, message: JsonValue, request: Request
) -> Reply:
    """Answer one plain JSON-RPC message: a request, a notification or an invalid message."""
    if (reply := refuse_malformed(message)) is not None:
        return reply
    assert isinstance(message, dict)
    if "id" not in message:
        await _handle_notification(
            server, cast(str, message["method"]), cast("Json | None", message.get("params")), request
        )
        return Reply(202, None)
    reply = await _respond(server, message, request)
    return Reply(mcp_request.status or reply.status, _flatten_result(server, message, reply.body))


async def _respond(server: KnowledgeServer, message: Json, request: Request) -> Reply:
    """Answer one request on a connection of its own."""
    method, params, request_id = cast(str, message["method"]), cast("Json | None", message.get("params")), message["id"]
    context = _make_context(request, request_id)
    try:
        result = await serve_one(
            server, context, method, params, connection=_make_connection(request), lifespan_state={}
        )
    except Exception as error:
        data = modern_error_data(error)
        body = mcp_errors.make_error_body(
            data.code, data.message, mcp_errors.add_error_type(data.code, data.data), request_id
        )
        return Reply(HTTP_STATUS_BY_CODE.get(data.code, 200), body)
    return Reply(200, {"jsonrpc": "2.0", "id": request_id, "result": result})


def _flatten_result(server: KnowledgeServer, message: Json, body: Json | None) -> Json | None:
    """Copy `structuredContent` to the top level of the result for tools with `flat` set (contract 001)."""
    params, result = message.get("params"), (body or {}).get("result")
    if message["method"] != "tools/call" or not isinstance(params, dict) or not isinstance(result, dict):
        return body
    tool, fields = server.registry.by_name.get(str(params.get("name"))), result.get("structuredContent")
    if body is None or tool is None or not tool.flat or not isinstance(fields, dict):
        return body
    return {**body, "result": {**fields, **result}}


async def _handle_notification(server: KnowledgeServer, method: str, params: Json | None, request: Request) -> None:
    connection = _make_connection(request)
    try:
        await ServerRunner(server, connection, {}).on_notify(_make_context(request, None), method, params)
    finally:
        await aclose_shielded(connection)


def _make_connection(request: Request) -> Connection:
    return Connection.from_envelope(request.headers.get("mcp-protocol-version", PLAIN_PROTOCOL_VERSION), None, None)


def _make_context(request: Request, request_id: JsonValue) -> PlainContext:
    transport = TransportContext(kind="streamable-http", can_send_request=False, headers=request.headers)
    return PlainContext(transport, request_id, ServerMessageMetadata(request_context=request))


def make_error_reply(code: int, message: str, request_id: JsonValue = None, **details: JsonValue) -> Reply:
    data: Json = {"error_type": mcp_errors.ERROR_TYPES[code], "details": details}
    return Reply(HTTP_STATUS_BY_CODE.get(code, 200), mcp_errors.make_error_body(code, message, data, request_id))
