"""Turns pydantic's validation errors into ours, and lists the parameters of a route."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel

from knowledge.errors import Invalid, InvalidParameter, KnowledgeError, Malformed, MissingParameter, UnknownParameter
from knowledge.wire.errors import REST_MESSAGES, describe_problem

Problem = Mapping[str, Any]
"""One entry of pydantic's list: type, loc, msg, input and ctx."""


def validation_error(problems: Sequence[Problem], valid: Iterable[str] = ()) -> KnowledgeError:
    """Return the error for pydantic's problems; the first one determines its class."""
    first = problems[0]
    if first["type"] == "json_invalid":
        return not_json_error()
    name = _name(first)
    if not name:
        return Invalid("The body must be a JSON object")
    if first["type"] == "missing":
        return MissingParameter(f"'{name}' is missing", hint=f"Add '{name}' to the request.", parameter=name)
    if first["type"] == "extra_forbidden":
        return unknown_parameter_error(name, valid)
    listed = [
        {"parameter": _name(problem), "problem": describe_problem(problem, REST_MESSAGES)} for problem in problems
    ]
    message = f"'{name}' {listed[0]['problem']}"
    return InvalidParameter(message, parameter=name, problems=[dict(entry) for entry in listed])


def not_json_error() -> Malformed:
    return Malformed("The body is not JSON", hint="Send one JSON object, encoded as UTF-8.")


def parameter_names(route: APIRoute, location: str) -> dict[str, bool]:
    """Return the names of a route's body or query parameters, and whether each is required."""
    declared = route.dependant.body_params if location == "body" else route.dependant.query_params
    names: dict[str, bool] = {}
    for field in declared:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            names.update({name: each.is_required() for name, each in model.model_fields.items()})
        else:
            names[field.alias] = field.field_info.is_required()
    return names


def unknown_parameter_error(name: str, valid: Iterable[str]) -> UnknownParameter:
    names = sorted(valid)
    hint = f"Known parameters: {', '.join(names)}." if names else "This route takes no parameters."
    return UnknownParameter(f"Unknown parameter '{name}'", hint=hint, parameter=name, valid=list(names))


def _name(problem: Problem) -> str:
    """Return the path of a value, such as `tags[2]`, without the members of a union that pydantic tried."""
    places = problem["loc"]
    if not places:
        return ""
    return str(places[0])[:80] + "".join(f"[{place}]" for place in places[1:] if isinstance(place, int))
