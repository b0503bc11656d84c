"""One request on its way through the MCP surface: who asks, what they see, and what the answer's head will say."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from starlette.types import Scope

from knowledge.engine.api import Engine
from knowledge.model import Caller, Report
from knowledge.toolsets.base import Call, Limits, Rate, View, silent, unfollowed

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

SCOPE_KEY = "knowledge.visit"


def unlimited(rate: Rate) -> None:
    """An allowance without end."""


@dataclass(slots=True, kw_only=True)
class Visit:
    engine: Engine
    view: View
    caller: Caller = field(default_factory=Caller)
    limits: Limits = field(default_factory=Limits)
    services: Mapping[type[object], object] = field(default_factory=dict)
    spend: Callable[[Rate], None] = unlimited
    """Draws on the caller's allowance; raises RateLimited when it is used up."""
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

    def enter(self, scope: Scope) -> None:
        scope[SCOPE_KEY] = self
