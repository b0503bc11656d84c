"""How an answer leaves: JSON made once, straight from the shape, without a second look at it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from knowledge.errors import KnowledgeError, RateLimited
from knowledge.surfaces.http.rate_limits import refused_headers
from knowledge.wire import dump_error

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def answer(shape: Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # A passage may hold half a surrogate pair, which UTF-8 cannot carry.
    content = _ENCODER.encode(shape).encode("utf-8", "replace")
    return Response(content, status, headers, "application/json")


def refusal(error: KnowledgeError) -> Response:
    return answer(dump_error(error), error.status, refusal_headers(error))


def refusal_headers(error: KnowledgeError) -> dict[str, str]:
    headers = {"x-mcp-error-code": error.code}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    allowed, wait = error.details.get("allow"), error.details.get("retry_after")
    if isinstance(allowed, str):
        headers["allow"] = allowed
    if isinstance(wait, int):
        headers["retry-after"] = str(wait)
    return {**headers, **refused_headers(error)} if isinstance(error, RateLimited) else headers
