"""Exception handlers: every error, also the framework's own, is answered in one JSON shape."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from knowledge.errors import (
    Internal,
    KnowledgeError,
    MethodNotAllowed,
    MissingParameter,
    NotFound,
    TooLarge,
)  # fmt: skip
from knowledge.surfaces.http.responses import error_response, json_error_response
from knowledge.surfaces.rest.framework.validation import Problem, not_json_error, parameter_names, validation_error


class BodyTooLarge(HTTPException):
    """Raised while a body is read; FastAPI lets only an HTTPException through there."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self.max_bytes = max_bytes


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(KnowledgeError, answer_error)
    app.add_exception_handler(RequestValidationError, answer_validation_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_exception_handler(Exception, answer_unexpected_error)


async def answer_error(request: Request, error: Exception) -> Response:
    return error_response(request.scope["path"], cast(KnowledgeError, error))


async def answer_validation_error(request: Request, error: Exception) -> Response:
    problems = cast(RequestValidationError, error).errors()
    return error_response(request.scope["path"], explain_problems(request.scope["route"], problems))


def explain_problems(route: APIRoute, problems: Sequence[Problem]) -> KnowledgeError:
    """Turn FastAPI's validation errors into ours; their locations start with "path", "query" or "body"."""
    location = problems[0]["loc"]
    names = parameter_names(route, str(location[0]))
    if problems[0]["type"] == "missing" and location == ("body",):
        name = next((name for name, is_required in names.items() if is_required), "body")
        return MissingParameter(f"'{name}' is missing", hint=f"Add '{name}' to the request.", parameter=name)
    return validation_error([{**problem, "loc": problem["loc"][1:]} for problem in problems], names)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Turn the framework's own errors (404, 405, 413) into ours."""
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    if isinstance(error, BodyTooLarge):
        size_mb = error.max_bytes >> 20
        return error_response(path, TooLarge(f"The request is larger than {size_mb} MB", max_size_mb=size_mb))
    if error.status_code == HTTPStatus.NOT_FOUND:
        return json_error_response(NotFound(f"There is no route {path[:200]}", hint="See /docs for all routes."))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        hint = f"Use {allowed}." if allowed else "See /docs for all routes."
        message = f"The method {request.method[:20]} is not allowed for {path[:200]}"
        return json_error_response(MethodNotAllowed(message, hint=hint, allow=allowed))
    return error_response(path, not_json_error())


async def answer_unexpected_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Answer 500 for an error outside of the routes; Starlette raises it again, and the server logs it."""
    return error_response(request.scope["path"], internal_error())


def internal_error() -> Internal:
    return Internal("Internal server error")
