"""The route under every call: unknown parameters are refused by name, and every error leaves in one shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from knowledge.errors import Internal, KnowledgeError, RateLimited
from knowledge.surfaces.answers import refusal
from knowledge.surfaces.rest.rates import draw
from knowledge.surfaces.rest.validation import Problem, refuse, unknown

log = logging.getLogger(__name__)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Route(APIRoute):
    def refuse(self, error: KnowledgeError) -> Response:
        """How an error leaves."""
        return refusal(error)

    def get_route_handler(self) -> Handler:
        handler, known = super().get_route_handler(), _query_names(self)

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
            except HTTPException:
                raise
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
