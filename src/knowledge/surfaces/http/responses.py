"""Responses in JSON for results and errors; errors of contract 001's routes carry its error codes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from knowledge.errors import InsufficientScope, KnowledgeError, RateLimited
from knowledge.surfaces.http.rate_limits import rate_limit_headers
from knowledge.wire import dump_error, dump_json

STREAM_PATH = "/api/v1/mcp/query/stream"
"""Contract 001's query as server-sent events; its errors are sent as events too."""
MANAGER_PATHS = ("/api/v1/user", "/api/v1/corpuses", "/api/v1/admin")
"""Routes whose errors carry the codes of contract 001."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def json_response(shape: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build a JSON response from a dataclass of `model` or `wire`, or from a mapping of JSON values."""
    if not isinstance(shape, Mapping):
        return Response(dump_json(shape), status, headers, "application/json")
    # "replace", because a message may contain a lone surrogate, which UTF-8 cannot encode.
    content = _ENCODER.encode(shape).encode("utf-8", "replace")
    return Response(content, status, headers, "application/json")


def json_error_response(error: KnowledgeError) -> Response:
    return json_response(dump_error(error), error.status, error_headers(error))


def error_response(path: str, error: KnowledgeError) -> Response:
    """Build the error response for a path: JSON, JSON with the codes of contract 001, or a server-sent event."""
    if path == STREAM_PATH:
        from knowledge.surfaces.http.sse import error_event_response  # sse imports this module

        return error_event_response(error)
    response = json_error_response(error)
    if path.startswith(MANAGER_PATHS):
        from knowledge.toolsets.manager.errors import find_wording

        response.headers["X-MCP-Error-Code"] = find_wording(error).code
    return response


def error_headers(error: KnowledgeError) -> dict[str, str]:
    headers = {"x-mcp-error-code": error.code}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, InsufficientScope):
        needed = error.details.get("scope")
        headers["www-authenticate"] = f'Bearer error="insufficient_scope", scope="{needed}"'
    allowed, wait = error.details.get("allow"), error.details.get("retry_after")
    if isinstance(allowed, str):
        headers["allow"] = allowed
    if isinstance(wait, int):
        headers["retry-after"] = str(wait)
    return {**headers, **rate_limit_headers(error)} if isinstance(error, RateLimited) else headers
