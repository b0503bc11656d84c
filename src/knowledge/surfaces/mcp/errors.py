"""JSON-RPC errors: the protocol's own codes, each with a type and details that a program can read."""

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
from knowledge.toolsets.base import Refused

TYPES = {
    PARSE_ERROR: "parse_error",
    INVALID_REQUEST: "invalid_request",
    METHOD_NOT_FOUND: "method_not_found",
    INVALID_PARAMS: "invalid_params",
    INTERNAL_ERROR: "internal_error",
    HEADER_MISMATCH: "header_mismatch",
    MISSING_REQUIRED_CLIENT_CAPABILITY: "missing_capability",
    UNSUPPORTED_PROTOCOL_VERSION: "unsupported_protocol_version",
}


def explained(code: int, data: Any) -> Json:
    """What an error carries: the keys it came with, its type, and the details."""
    known: Json = dict(data) if isinstance(data, dict) else {}
    details: Json = (
        {} if not data or isinstance(data, dict) else {"method" if code == METHOD_NOT_FOUND else "value": data}
    )
    return {"error_type": TYPES.get(code, "server_error"), "details": details, **known}


def fault(code: int, message: str, error_type: str | None = None, **details: JsonValue) -> MCPError:
    return MCPError(code, message, {"error_type": error_type or TYPES.get(code, "server_error"), "details": details})


def error_body(code: int, message: str, data: Json, request_id: JsonValue = None) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


def facts(error: KnowledgeError) -> Json:
    data: Json = {"http_status": error.status, "error_type": error.code, "details": error.details}
    return {**data, "hint": error.hint} if error.hint else data


def turned_away(error: KnowledgeError, request_id: JsonValue = None) -> Json:
    """The answer to a request that never reached a tool: no key, no such toolset, too large."""
    return error_body(error.status, str(error), facts(error), request_id)


def on_the_rpc_plane(refused: Refused) -> MCPError:
    """A refusal of a contract that says no with a JSON-RPC error."""
    return MCPError(*_said(refused))


def refused_body(refused: Refused, request_id: JsonValue = None) -> Json:
    """The same for a request that never reached a tool."""
    return error_body(*_said(refused), request_id)


def _said(refused: Refused) -> tuple[int, str, Json]:
    message = refused.body.get("message")
    data: Json = {"http_status": refused.status, "error_type": refused.code}
    data["details"] = {key: value for key, value in refused.body.items() if key != "message"}
    return refused.status or INTERNAL_ERROR, message if isinstance(message, str) else refused.code, data


def explain_bytes(status: int, body: bytes) -> bytes:
    """An error as the SDK wrote it, with its type and details; words without JSON become a JSON-RPC error."""
    try:
        parsed = json.loads(body)
        error = parsed["error"]
        error["data"] = explained(error["code"], error.get("data"))
    except (ValueError, KeyError, TypeError):
        text = body.decode("utf-8", "replace").strip() or "Bad request"
        parsed = error_body(
            INVALID_REQUEST, text, {"error_type": "invalid_request", "details": {"http_status": status}}
        )
    return json.dumps(parsed).encode()
