"""The context of one MCP request: caller, visible tools, rate limit, and status and headers of the response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from starlette.requests import HTTPConnection

from knowledge.errors import RateLimited
from knowledge.model import Caller
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, allowance_key_of, rate_limit_headers
from knowledge.surfaces.mcp.subscriptions import SessionSubscriptions
from knowledge.toolsets.base import RateClass, ToolCall, ToolsetView

BackgroundWork: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

SCOPE_KEY = "knowledge.mcp_request"

Acquire: TypeAlias = Callable[[RateClass], Awaitable[Allowance | None]]
"""Consumes one request from the caller's rate limit; raises RateLimited when it is used up."""


def make_acquire(rates: RateLimits | None, caller: Caller) -> Acquire | None:
    """Return the function that applies the rate limit of a caller; None for a caller without a limit."""
    key = allowance_key_of(caller)
    return None if rates is None or key is None else partial(rates.acquire, rates.mcp, key)


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """What is reported of a request of an agent; see `agent_reports.py`."""

    caller: Caller
    toolsets: tuple[str, ...]
    method: str
    tool: object
    """Name of the tool that is called, or None."""
    client: object
    """Name and version that the client gives with this request, or None."""
    known_client: object
    """Name and version that it gave when it connected, or None."""
    connection: HTTPConnection | None
    """None over stdio."""


@dataclass(slots=True, kw_only=True)
class McpRequest:
    tool_call: ToolCall
    """Copied for each call of a tool, with its progress functions set."""
    view: ToolsetView
    acquire: Acquire | None = None
    start_task: Callable[[BackgroundWork], None] | None = None
    """Starts background work for a connection that stays open; None for a single request."""
    subscriptions: SessionSubscriptions | None = None
    """The documents that this connection watches; None for a single request."""
    is_plain: bool = False
    """Whether this is JSON-RPC without an MCP handshake, whose caller reads the HTTP status."""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    async def spend_allowance(self, rate: RateClass) -> None:
        """Apply the caller's rate limit and add the rate-limit headers to the response."""
        if self.acquire is None:
            return
        try:
            allowance = await self.acquire(rate)
        except RateLimited as error:
            self.headers.update(rate_limit_headers(error))
            raise
        if allowance is not None:
            self.headers.update(allowance.headers)
