"""What pydantic found wrong, in our own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowledge.errors import Invalid, InvalidParameter, KnowledgeError, Malformed, MissingParameter, UnknownParameter

Problem = Mapping[str, Any]
"""One entry of pydantic's list: type, loc, msg, input and ctx."""

WORDS = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is a number beyond all measure",
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
}


def refuse(problems: Sequence[Problem], valid: Iterable[str] = ()) -> KnowledgeError:
    """The error for a request that does not fit; the first problem gives it its class."""
    first = problems[0]
    if first["type"] == "json_invalid":
        return Malformed("The body is not JSON", hint="Send one JSON object, encoded as UTF-8.")
    name = _name(first)
    if not name:
        return Invalid("The body must be a JSON object")
    if first["type"] == "missing":
        return MissingParameter(f"'{name}' is missing", hint=f"Add '{name}' to the request.", parameter=name)
    if first["type"] == "extra_forbidden":
        return unknown(name, valid)
    listed = [{"parameter": _name(problem), "problem": _words(problem)} for problem in problems]
    return InvalidParameter(f"'{name}' {_words(first)}", parameter=name, problems=[dict(entry) for entry in listed])


def unknown(name: str, valid: Iterable[str]) -> UnknownParameter:
    names = sorted(valid)
    hint = f"Known here: {', '.join(names)}." if names else "Nothing can be given here."
    return UnknownParameter(f"'{name}' is not known here", hint=hint, parameter=name, valid=list(names))


def _words(problem: Problem) -> str:
    template = WORDS.get(problem["type"], "has a value that does not fit")
    return template.format(**problem.get("ctx", {}))


def _name(problem: Problem) -> str:
    """`tags[2]` for the third tag; the kinds that a union tried are left out."""
    places = problem["loc"]
    if not places:
        return ""
    return str(places[0])[:80] + "".join(f"[{place}]" for place in places[1:] if isinstance(place, int))
