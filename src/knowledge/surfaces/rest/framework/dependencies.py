"""What the routes depend on: the engine for their caller, and a request that holds only what they declare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias, cast

from fastapi import Depends
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import Request

from knowledge.engine.api import Engine
from knowledge.errors import Starting, UnsupportedFormat
from knowledge.model import Caller
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.rest.framework.validation import not_json, parameter_names, unknown

EngineFor: TypeAlias = Callable[[Caller], Engine]
"""The engine as one caller may see it."""
MAX_ECHO_CHARS = 80
"""How much of a name or a content type an error repeats."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the application was made with; its routes and its middleware share it."""

    engine_for: EngineFor
    ready: Callable[[], bool]
    max_file_bytes: int
    rates: RateLimits | None = None


async def get_context(request: Request) -> Context:
    return cast(Context, request.app.state.context)


async def get_engine(request: Request) -> Engine:
    """The engine as the caller may see it; FastAPI resolves it once per request."""
    context = await get_context(request)
    if not context.ready():
        raise Starting("The server is starting")
    return context.engine_for(caller_of(request.scope))


AppContext: TypeAlias = Annotated[Context, Depends(get_context)]
CallerEngine: TypeAlias = Annotated[Engine, Depends(get_engine)]


async def check_request(request: Request) -> None:
    """Refuse a query parameter that the route does not declare, and a body that is not JSON where it takes JSON."""
    route = cast(APIRoute, request.scope["route"])
    if request.scope["query_string"]:
        known = parameter_names(route, "query")
        for name in request.query_params:
            if name not in known:
                raise unknown(name[:MAX_ECHO_CHARS], known)
    if route.body_field is not None:
        require_json(request)
        check_json(await request.body())


def require_json(request: Request) -> None:
    given = content_type(request)
    if given and not is_json(given):
        raise UnsupportedFormat(
            f"The body is {given[:MAX_ECHO_CHARS]}",
            hint="Send JSON with 'Content-Type: application/json'.",
            content_type=given[:MAX_ECHO_CHARS],
        )


def check_json(body: bytes) -> None:
    """Refuse what Python's parser accepts beyond RFC 8259: UTF-16, half a surrogate pair, nesting without a limit."""
    try:
        from_json(body or b"{}")
    except ValueError as error:
        raise not_json() from error


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")
