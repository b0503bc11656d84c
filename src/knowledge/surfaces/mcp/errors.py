"""Builds JSON-RPC errors with `error_type` and `details` in their data, as contract 000 prints them."""

from __future__ import annotations

import json
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from knowledge.errors import KnowledgeError
from knowledge.model import Json, JsonValue
from knowledge.toolsets.base import Refusal

ERROR_TYPES = {
    PARSE_ERROR: "parse_error",
    INVALID_REQUEST: "invalid_request",
    METHOD_NOT_FOUND: "method_not_found",
    INVALID_PARAMS: "invalid_params",
    INTERNAL_ERROR: "internal_error",
    HEADER_MISMATCH: "header_mismatch",
    MISSING_REQUIRED_CLIENT_CAPABILITY: "missing_capability",
    UNSUPPORTED_PROTOCOL_VERSION: "unsupported_protocol_version",
}


def add_error_type(code: int, data: Any) -> Json:
    """Return error data with `error_type` and `details` added unless already present."""
    known: Json = dict(data) if isinstance(data, dict) else {}
    details: Json = (
        {} if not data or isinstance(data, dict) else {"method" if code == METHOD_NOT_FOUND else "value": data}
    )
    return {"error_type": ERROR_TYPES.get(code, "server_error"), "details": details, **known}


def make_mcp_error(code: int, message: str, error_type: str | None = None, **details: JsonValue) -> MCPError:
    return MCPError(
        code, message, {"error_type": error_type or ERROR_TYPES.get(code, "server_error"), "details": details}
    )


def make_error_body(code: int, message: str, data: Json, request_id: JsonValue = None) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


def format_error_data(error: KnowledgeError) -> Json:
    data: Json = {"http_status": error.status, "error_type": error.code, "details": error.details}
    return {**data, "hint": error.hint} if error.hint else data


def format_error_body(error: KnowledgeError, request_id: JsonValue = None) -> Json:
    """Return the JSON-RPC error body for a request rejected before dispatch."""
    return make_error_body(error.status, str(error), format_error_data(error), request_id)


def to_mcp_error(refusal: Refusal) -> MCPError:
    """Convert a refusal to a JSON-RPC error, for contracts that refuse this way (001)."""
    return MCPError(*_refusal_fields(refusal))


def format_refusal_body(refusal: Refusal, request_id: JsonValue = None) -> Json:
    """Return the JSON-RPC error body of a refusal, for a request rejected before dispatch."""
    return make_error_body(*_refusal_fields(refusal), request_id)


def format_tool_refusal(refusal: Refusal) -> Json:
    """Return the body of a tool result for a refusal that plain callers get as a JSON-RPC error."""
    known: Json = {"message": refusal.body.get("message"), "code": refusal.code}
    if hint := refusal.body.get("hint"):
        known["hint"] = hint
    details: Json = {key: value for key, value in refusal.body.items() if key not in ("message", "hint")}
    return {**known, "http_status": refusal.status, "details": details}


def _refusal_fields(refusal: Refusal) -> tuple[int, str, Json]:
    message = refusal.body.get("message")
    data: Json = {"http_status": refusal.status, "error_type": refusal.code}
    data["details"] = {key: value for key, value in refusal.body.items() if key != "message"}
    return refusal.status or INTERNAL_ERROR, message if isinstance(message, str) else refusal.code, data


def explain_error_body(status: int, body: bytes, request_id: JsonValue = None) -> bytes:
    """Add the request's id, type and details to an error body of the SDK; convert plain text to a JSON-RPC error."""
    try:
        parsed = json.loads(body)
        if parsed.get("id") is None:
            parsed["id"] = request_id
        error = parsed["error"]
        error["data"] = add_error_type(error["code"], error.get("data"))
    except (ValueError, KeyError, TypeError, AttributeError):
        text = body.decode("utf-8", "replace").strip() or "Bad request"
        parsed = make_error_body(
            INVALID_REQUEST, text, {"error_type": "invalid_request", "details": {"http_status": status}}, request_id
        )
    return json.dumps(parsed).encode()
