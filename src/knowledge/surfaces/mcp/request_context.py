"""One request on its way through the MCP surface: who asks, what they see, and what the answer's head will say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from knowledge.errors import RateLimited
from knowledge.model import Caller
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, allowance_key_of, rate_limit_headers
from knowledge.toolsets.base import RateClass, ToolCall, ToolsetView

BackgroundWork: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

SCOPE_KEY = "knowledge.mcp_request"

Acquire: TypeAlias = Callable[[RateClass], Awaitable[Allowance | None]]
"""Takes one from the caller's allowance; raises RateLimited when it is used up."""


def make_acquire(rates: RateLimits | None, caller: Caller) -> Acquire | None:
    """How a caller's visits draw on their allowances; None for a caller without a limit."""
    purse = allowance_key_of(caller)
    return None if rates is None or purse is None else partial(rates.acquire, rates.mcp, purse)


@dataclass(slots=True, kw_only=True)
class McpRequest:
    make_call: ToolCall
    """What a tool gets; one that reports progress gets it with a report."""
    view: ToolsetView
    acquire: Acquire | None = None
    start_task: Callable[[BackgroundWork], None] | None = None
    """Runs something beside the connection for as long as it stays open; None where it does not."""
    is_plain: bool = False
    """A caller of plain JSON-RPC, who reads the HTTP status."""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    async def spend_allowance(self, rate: RateClass) -> None:
        """Draw on the caller's allowance, and say in the answer's head what is left of it."""
        if self.acquire is None:
            return
        try:
            allowance = await self.acquire(rate)
        except RateLimited as error:
            self.headers.update(rate_limit_headers(error))
            raise
        if allowance is not None:
            self.headers.update(allowance.headers)
