"""Errors, there and back: the same class comes out that went in, with its facts."""

from __future__ import annotations

from typing import cast

from knowledge.errors import BY_CODE, KnowledgeError, tree
from knowledge.model import Json
from knowledge.wire.shapes import ErrorShape


def dump_error(error: KnowledgeError) -> ErrorShape:
    facts = {"code": error.code, "message": str(error), "hint": error.hint, "details": error.details}
    return cast(ErrorShape, {"error": facts})


def load_error(status: int, body: object) -> KnowledgeError | None:
    """The error that a reply carries, or None when it is not one of ours."""
    facts = body.get("error") if isinstance(body, dict) else None
    if not isinstance(facts, dict):
        return None
    code, message, hint = facts.get("code"), facts.get("message"), facts.get("hint")
    if not (isinstance(code, str) and isinstance(message, str)):
        return None
    error = (BY_CODE.get(code) or _nearest(status))(message, hint=hint if isinstance(hint, str) else None)
    details = facts.get("details")
    error.details = cast(Json, details) if isinstance(details, dict) else {}
    return error


def _nearest(status: int) -> type[KnowledgeError]:
    """For a code of a later version: the first class with the same HTTP status."""
    return next((error for error in tree() if error.status == status), KnowledgeError)
