"""Error codes and hints of the connector."""

from __future__ import annotations

from knowledge import errors
from knowledge.errors import KnowledgeError
from knowledge.model import Json
from knowledge.toolsets.base import Refusal, find_nearest

ERROR_CODES: dict[type[KnowledgeError], str] = {
    KnowledgeError: "internal_error",
    errors.Invalid: "invalid_parameter",
    errors.MissingParameter: "missing_required_parameter",
    errors.Unauthenticated: "unauthenticated",
    errors.Forbidden: "access_denied",
    errors.NotFound: "not_found",
    errors.RateLimited: "rate_limited",
    errors.Unavailable: "unavailable",
    errors.DeadlineExceeded: "timeout",
}

HINTS: dict[type[KnowledgeError], str] = {
    errors.DocumentNotFound: "Call search, and use an id that it returned or a next_id that fetch returned.",
}
"""Replaces hints of the engine that mention what this contract does not have."""


def refuse(error: KnowledgeError) -> Refusal:
    """Format an error as code, message and hint."""
    code = find_nearest(type(error), ERROR_CODES)
    body: Json = {"success": False, "error": code, "message": str(error)}
    if hint := HINTS.get(type(error), error.hint):
        body["hint"] = hint
    return Refusal(body, code=code)
