"""The route under every call: unknown parameters are refused by name, and every error leaves in one shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, cast

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from knowledge.errors import Internal, KnowledgeError, Malformed, MethodNotAllowed, NotFound, RateLimited
from knowledge.surfaces.http.responses import refusal
from knowledge.surfaces.rest.framework.rate_classes import draw
from knowledge.surfaces.rest.framework.validation import Problem, refuse, unknown

log = logging.getLogger(__name__)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Route(APIRoute):
    @property
    def takes_the_request_alone(self) -> bool:
        """Whether there is nothing that the framework would have to find in the request first."""
        wants = self.dependant
        found = (
            *wants.path_params,
            *wants.query_params,
            *wants.header_params,
            *wants.cookie_params,
            *wants.body_params,
        )
        return not (found or wants.dependencies) and wants.request_param_name is not None

    @property
    def is_plain(self) -> bool:
        """Whether its address is all there is to know of a request before it is answered."""
        return self.takes_the_request_alone and "{" not in self.path

    def refuse(self, error: KnowledgeError) -> Response:
        """How an error leaves."""
        return refusal(error)

    def get_route_handler(self) -> Handler:
        handler = cast(Handler, self.endpoint) if self.takes_the_request_alone else super().get_route_handler()
        known = _query_names(self)

        async def answered(request: Request) -> Response:
            try:
                drawn = await draw(request, self.path)
            except RateLimited as error:
                return self.refuse(error)
            response = await respond(request)
            for name, value in drawn.headers.items() if drawn is not None else ():
                response.headers.setdefault(name, value)
            return response

        async def respond(request: Request) -> Response:
            try:
                _check_query(request, known)
                return await handler(request)
            except KnowledgeError as error:
                return self.refuse(error)
            except RequestValidationError as error:
                return self.refuse(refuse([_plain(problem) for problem in error.errors()], known))
            except HTTPException as error:
                return self.refuse(in_our_words(request, error))
            except Exception:
                log.exception("%s %s failed", request.method, self.path)
                return self.refuse(Internal("Something went wrong inside the server"))

        return answered


def _plain(problem: Problem) -> Problem:
    """Without the "query" or "path" that FastAPI puts before the name."""
    return {**problem, "loc": problem["loc"][1:]}


def _query_names(route: APIRoute) -> frozenset[str]:
    names: set[str] = set()
    for field in route.dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            names.update(annotation.model_fields)
        else:
            names.add(field.alias)
    return frozenset(names)


def _check_query(request: Request, known: frozenset[str]) -> None:
    if request.scope["query_string"]:
        for name in request.query_params:
            if name not in known:
                raise unknown(name[:80], known)


def in_our_words(request: Request, error: HTTPException) -> KnowledgeError:
    """What the framework refuses by itself."""
    path = request.url.path[:200]
    if error.status_code == HTTPStatus.NOT_FOUND:
        return NotFound(f"There is nothing at {path}", hint="See /docs for what there is.")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        hint = f"Use {allowed}." if allowed else "See /docs for what there is."
        return MethodNotAllowed(f"{request.method[:20]} is not possible at {path}", hint=hint, allow=allowed)
    return Malformed("The request cannot be read")
