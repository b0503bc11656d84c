"""FastAPI dependencies of the routes: the caller's engine, and checks of query parameters and JSON bodies."""

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
from knowledge.surfaces.http.tool_runner import ToolRunner
from knowledge.surfaces.rest.framework.validation import not_json_error, parameter_names, unknown_parameter_error

EngineFor: TypeAlias = Callable[[Caller], Engine]
"""Returns the engine with the permissions of a caller."""
MAX_ECHO_CHARS = 80
"""Length to which names and content types are cut in error messages."""


@dataclass(frozen=True, slots=True)
class Context:
    """Configuration that the routes and the middleware share."""

    engine_for: EngineFor
    ready: Callable[[], bool]
    max_file_bytes: int
    rates: RateLimits | None = None
    is_operator_key: Callable[[str], bool] = lambda key: False  # noqa: ARG005
    """Whether a key is the operator's, which a browser may log in with."""
    trusted_only: bool = False
    """Whether contract 001's stream finds trusted collections only, whatever a call says."""
    tools: ToolRunner | None = None
    """The tools of MCP, if this server offers them."""


async def get_context(request: Request) -> Context:
    return cast(Context, request.app.state.context)


async def get_engine(request: Request) -> Engine:
    """Return the engine with the caller's permissions; FastAPI resolves it once per request."""
    return _open_engine(await get_context(request), caller_of(request.scope))


async def get_operator_engine(request: Request) -> Engine:
    """Return the engine with the operator's permissions, for a login, which has no caller yet."""
    return _open_engine(await get_context(request), Caller())


def _open_engine(context: Context, caller: Caller) -> Engine:
    if not context.ready():
        raise Starting("The server is starting")
    return context.engine_for(caller)


AppContext: TypeAlias = Annotated[Context, Depends(get_context)]
CallerEngine: TypeAlias = Annotated[Engine, Depends(get_engine)]
OperatorEngine: TypeAlias = Annotated[Engine, Depends(get_operator_engine)]


async def check_request(request: Request) -> None:
    """Reject unknown query parameters, and a body that is not JSON if the route takes JSON."""
    route = cast(APIRoute, request.scope["route"])
    if request.scope["query_string"]:
        known = parameter_names(route, "query")
        for name in request.query_params:
            if name not in known:
                raise unknown_parameter_error(name[:MAX_ECHO_CHARS], known)
    if route.body_field is not None:
        require_json(request)
        check_json(await request.body())


def require_json(request: Request) -> None:
    given = content_type(request)
    if given and not is_json(given):
        raise UnsupportedFormat(
            f"The content type {given[:MAX_ECHO_CHARS]} is not supported here",
            hint="Send JSON with 'Content-Type: application/json'.",
            content_type=given[:MAX_ECHO_CHARS],
        )


def check_json(body: bytes) -> None:
    """Reject what Python's parser accepts beyond RFC 8259: UTF-16, lone surrogates, unlimited nesting."""
    try:
        from_json(body or b"{}")
    except ValueError as error:
        raise not_json_error() from error


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")
