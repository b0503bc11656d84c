"""Convert errors to and from JSON, and describe pydantic validation errors for REST and for tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import JsonValue
from typing_extensions import TypedDict

from knowledge.error_codes import ERRORS_BY_CODE, walk_error_classes
from knowledge.errors import KnowledgeError
from knowledge.model import Json

REST_MESSAGES = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is out of range",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "string_unicode": "is not valid UTF-8",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "uuid_type": "must be a UUID",
    "uuid_parsing": "must be a UUID",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "value_error": "{error}",
    "": "is not valid",
}
"""REST messages by pydantic error type; the empty key is the default."""

TOOL_MESSAGES = {
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be an array",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be more than {gt}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be one of {choices}",
    "enum": "must be one of {choices}",
    "string_too_short": "must not be empty",
    "string_too_long": "must not be longer than {max_length}",
    "too_long": "must not be longer than {max_length}",
    "value_error": "{error}",
    "": "is not valid",
}
"""Tool messages by pydantic error type; the empty key is the default."""


class ErrorFacts(TypedDict):
    code: str
    message: str
    hint: str
    details: dict[str, JsonValue]


class ErrorShape(TypedDict):
    error: ErrorFacts


def dump_error(error: KnowledgeError) -> ErrorShape:
    facts = {"code": error.code, "message": str(error), "hint": error.hint, "details": error.details}
    return cast(ErrorShape, {"error": facts})


def load_error(status: int, body: object) -> KnowledgeError | None:
    """Return the error in a response body, or None if it is not in our format."""
    facts = body.get("error") if isinstance(body, dict) else None
    if not isinstance(facts, dict):
        return None
    code, message, hint = facts.get("code"), facts.get("message"), facts.get("hint")
    if not (isinstance(code, str) and isinstance(message, str)):
        return None
    error = (ERRORS_BY_CODE.get(code) or _find_nearest_class(status))(
        message, hint=hint if isinstance(hint, str) else None
    )
    details = facts.get("details")
    error.details = cast(Json, details) if isinstance(details, dict) else {}
    return error


def _find_nearest_class(status: int) -> type[KnowledgeError]:
    """Return the first class with this HTTP status, for an unknown code from a newer server."""
    return next((error for error in walk_error_classes() if error.status == status), KnowledgeError)


def describe_problem(problem: Mapping[str, Any], messages: Mapping[str, str]) -> str:
    """Describe one entry of pydantic's `ValidationError.errors()`."""
    context = dict(problem.get("ctx", {}))
    context["choices"] = str(context.get("expected", "")).replace(" or ", ", ")
    return messages.get(problem["type"], messages[""]).format(**context)
