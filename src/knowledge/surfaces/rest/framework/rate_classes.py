"""Which allowance a call draws on: one table for all routes."""

from __future__ import annotations

from starlette.requests import Request

from knowledge.model import CallerKind
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.rate_limits import Allowance, purse_of, stranger
from knowledge.surfaces.rest.framework.context import context_of
from knowledge.toolsets.base import Rate

PREFIX = "/api/v1"
STREAM = "/mcp/query/stream"
LONGEST_NAME = 64
FREE = ("/health",)

RATES: dict[tuple[str, str], Rate] = {
    ("POST", "/search"): Rate.QUERY,
    ("POST", STREAM): Rate.QUERY,
    ("POST", "/jobs"): Rate.UPLOAD,
    ("POST", "/crawls"): Rate.UPLOAD,
    ("POST", "/corpuses/{id}/upload"): Rate.UPLOAD,
    ("GET", "/documents/{id}/file"): Rate.RESOURCE,
    ("POST", "/user/register"): Rate.AUTHENTICATION,
    ("POST", "/user/login"): Rate.AUTHENTICATION,
    ("PUT", "/user/password"): Rate.AUTHENTICATION,
    ("DELETE", "/user"): Rate.AUTHENTICATION,
}
"""What is not here is a listing when it only reads, and management when it changes something."""


def rate_of(method: str, path: str) -> Rate | None:
    """The class of a route; None for what everybody may ask at any time."""
    path = path.removeprefix(PREFIX)
    if path in FREE:
        return None
    return RATES.get((method, path), Rate.LIST if method in ("GET", "HEAD") else Rate.MANAGEMENT)


async def draw(request: Request, path: str) -> Allowance | None:
    """Take one from the caller's allowance, before anything is read."""
    rates, rate = context_of(request).rates, rate_of(request.method, path)
    if rates is None or rate is None:
        return None
    table = rates.mcp if path.endswith(STREAM) else rates.rest
    purse = purse_of(caller_of(request.scope))
    if purse is None and rate is Rate.AUTHENTICATION:
        purse = stranger(request.scope)
    return await rates.draw(table, purse, rate)


async def draw_for_name(request: Request, username: str) -> None:
    """Let nobody try passwords for one name faster than from one address, however many addresses they have."""
    rates = context_of(request).rates
    if rates is not None and caller_of(request.scope).kind is not CallerKind.KEY:
        await rates.draw(rates.rest, f"name:{username.casefold()[:LONGEST_NAME]}", Rate.AUTHENTICATION)
