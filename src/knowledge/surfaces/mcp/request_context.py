"""One request on its way through the MCP surface: who asks, what they see, and what the answer's head will say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from starlette.types import Scope

from knowledge.engine.api import Engine
from knowledge.errors import RateLimited
from knowledge.model import Caller, Report
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, purse_of, refused_headers
from knowledge.toolsets.base import Call, Limits, Rate, View, silent, unfollowed

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

SCOPE_KEY = "knowledge.visit"

Draw: TypeAlias = Callable[[Rate], Awaitable[Allowance | None]]
"""Takes one from the caller's allowance; raises RateLimited when it is used up."""


async def unlimited(_: Rate) -> None:
    """An allowance without end."""


def drawing(rates: RateLimits | None, caller: Caller) -> Draw:
    """How a caller's visits draw on their allowances."""
    purse = purse_of(caller)
    if rates is None or purse is None:
        return unlimited
    return partial(rates.draw, rates.mcp, purse)


@dataclass(slots=True, kw_only=True)
class Visit:
    engine: Engine
    view: View
    caller: Caller = field(default_factory=Caller)
    limits: Limits = field(default_factory=Limits)
    services: Mapping[type[object], object] = field(default_factory=dict)
    draw: Draw = unlimited
    start: Callable[[Work], None] | None = None
    """Runs something beside the connection for as long as it stays open; None where it does not."""
    plain: bool = False
    """A caller of plain JSON-RPC, who reads the HTTP status."""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def call(self, report: Report = silent, follow: Callable[[UUID], None] = unfollowed) -> Call:
        return Call(
            engine=self.engine, caller=self.caller, limits=self.limits, services=self.services,
            report=report, follow=follow,
        )  # fmt: skip

    @property
    def is_limited(self) -> bool:
        return self.draw is not unlimited

    async def spend(self, rate: Rate) -> None:
        """Draw on the caller's allowance, and say in the answer's head what is left of it."""
        try:
            allowance = await self.draw(rate)
        except RateLimited as error:
            self.headers.update(refused_headers(error))
            raise
        if allowance is not None:
            self.headers.update(allowance.headers)

    def enter(self, scope: Scope) -> None:
        scope[SCOPE_KEY] = self
