"""What a request finds in the application: the engine for its caller, and the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from starlette.requests import Request

from knowledge.engine.api import Engine
from knowledge.errors import Starting
from knowledge.model import Caller
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.rate_limits import RateLimits

EngineFor: TypeAlias = Callable[[Caller], Engine]
"""The engine as one caller may see it."""


@dataclass(frozen=True, slots=True)
class Context:
    engine_for: EngineFor
    ready: Callable[[], bool]
    max_file_bytes: int
    rates: RateLimits | None = None


def context_of(request: Request) -> Context:
    return cast(Context, request.app.state.context)


def engine_of(request: Request) -> Engine:
    context = context_of(request)
    if not context.ready():
        raise Starting("The server is starting")
    return context.engine_for(caller_of(request.scope))
