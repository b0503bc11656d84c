"""The middleware of the REST API: rate limits, the size of a body, and the answer to a fault of a route."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from functools import cached_property

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import RateLimited
from knowledge.model import CallerKind
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, address_key_of, allowance_key_of
from knowledge.surfaces.http.responses import STREAM_PATH, error_response
from knowledge.surfaces.rest.framework.dependencies import Context
from knowledge.surfaces.rest.framework.errors import BodyTooLarge, internal_error
from knowledge.toolsets.base import RateClass

log = logging.getLogger(__name__)

PREFIX = "/api/v1"
MAX_JSON_BYTES = 16 << 20
MAX_STREAM_QUERY_BYTES = 4 << 20
FORM_OVERHEAD_BYTES = 1 << 20
"""For the boundaries and the small fields around a file."""
UPLOAD_PATHS = frozenset({f"{PREFIX}/jobs", f"{PREFIX}/corpuses/{{id}}/upload"})
DRAIN_SECONDS = 10.0
MAX_USERNAME_CHARS = 64
FREE = ("/health",)

RATES: dict[tuple[str, str], RateClass] = {
    ("POST", "/search"): RateClass.QUERY,
    ("POST", "/mcp/query/stream"): RateClass.QUERY,
    ("POST", "/jobs"): RateClass.UPLOAD,
    ("POST", "/crawls"): RateClass.UPLOAD,
    ("POST", "/corpuses/{id}/upload"): RateClass.UPLOAD,
    ("GET", "/documents/{id}/file"): RateClass.RESOURCE,
    ("POST", "/user/register"): RateClass.AUTHENTICATION,
    ("POST", "/user/login"): RateClass.AUTHENTICATION,
    ("PUT", "/user/password"): RateClass.AUTHENTICATION,
    ("DELETE", "/user"): RateClass.AUTHENTICATION,
}
"""What is not here is a listing when it only reads, and management when it changes something."""


class RestMiddleware:
    """Charges each call before anything is read, tells what is left of the limit, and counts the body as it comes.

    A fault of a route is logged and answered as `internal`, so that its text and the connection stay here: Starlette
    would raise it again after the handler for Exception, which closes the connection.
    """

    def __init__(self, app: ASGIApp, api: FastAPI, context: Context) -> None:
        self._app, self._api, self._context = app, api, context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, answer = self._find_path(scope), Answer(send)
        try:
            if path is not None:
                answer.allowance = await charge_call(self._context.rates, scope, path)
                receive = LimitedBody(scope, receive, self._max_body_bytes(scope, path)).receive
            await self._app(scope, receive, answer.send)
        except RateLimited as error:
            await error_response(scope["path"], error)(scope, receive, send)
        except Exception:
            if answer.has_begun:
                raise
            log.exception("%s %s failed", scope["method"], path or scope["path"])
            await error_response(scope["path"], internal_error())(scope, receive, send)

    def _find_path(self, scope: Scope) -> str | None:
        """The path of the route that will answer, with its parameters in braces; None where there is no route."""
        method, path = scope["method"], scope["path"]
        fixed, patterns = self._paths
        if (method, path) in fixed:
            return str(path)
        return next((known for name, pattern, known in patterns if name == method and pattern.match(path)), None)

    @cached_property
    def _paths(self) -> tuple[set[tuple[str, str]], list[tuple[str, re.Pattern[str], str]]]:
        fixed: set[tuple[str, str]] = set()
        patterns: list[tuple[str, re.Pattern[str], str]] = []
        for route in iter_route_contexts(self._api.routes):
            path = route.path or ""
            for method in route.methods or () if path.startswith(PREFIX) else ():
                if "{" in path:
                    patterns.append((method, compile_path(path)[0], path))
                else:
                    fixed.add((method, path))
        return fixed, patterns

    def _max_body_bytes(self, scope: Scope, path: str) -> int:
        if path == STREAM_PATH:
            return MAX_STREAM_QUERY_BYTES
        if path in UPLOAD_PATHS and Headers(scope=scope).get("content-type", "").lower().startswith("multipart/"):
            return self._context.max_file_bytes + FORM_OVERHEAD_BYTES
        return MAX_JSON_BYTES


class LimitedBody:
    """The body of a request up to a limit; one that announces more is not read."""

    def __init__(self, scope: Scope, receive: Receive, max_bytes: int) -> None:
        announced = Headers(scope=scope).get("content-length", "")
        self._announced = int(announced[:20]) if announced.isdecimal() else 0
        self._receive, self._max_bytes = receive, max_bytes
        self._seen = 0
        self._more = True

    async def receive(self) -> Message:
        if self._announced > self._max_bytes and self._more:
            await self._refuse()
        message = await self._receive()
        self._note(message)
        if self._seen > self._max_bytes:
            await self._refuse()
        return message

    def _note(self, message: Message) -> None:
        self._more = message["type"] == "http.request" and message.get("more_body", False)
        self._seen += len(message.get("body", b""))

    async def _refuse(self) -> None:
        """Read what the client is still sending first, so that it reads the answer before the connection ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._more:
                    self._note(await self._receive())
        raise BodyTooLarge(self._max_bytes)


class Answer:
    """Sends an answer that says what is left of the limit."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.allowance: Allowance | None = None
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in self.allowance.headers.items() if self.allowance else ():
                headers.setdefault(name, value)
        await self._send(message)


def rate_of(method: str, path: str) -> RateClass | None:
    """The class of a route; None for what everybody may ask at any time."""
    path = path.removeprefix(PREFIX)
    if path in FREE:
        return None
    return RATES.get((method, path), RateClass.LIST if method in ("GET", "HEAD") else RateClass.MANAGEMENT)


async def charge_call(rates: RateLimits | None, scope: Scope, path: str) -> Allowance | None:
    """Count one call of a route against the limit of its caller; only accounts and authentication have limits."""
    rate, caller = rate_of(scope["method"], path), caller_of(scope)
    if rates is None or rate is None:
        return None
    if caller.kind is CallerKind.ACCOUNT:
        purse = allowance_key_of(caller)
    elif rate is RateClass.AUTHENTICATION:
        purse = address_key_of(scope)
    else:
        return None
    return await rates.acquire(rates.mcp if path == STREAM_PATH else rates.rest, purse, rate)


async def charge_username(rates: RateLimits | None, scope: Scope, username: str) -> None:
    """Limit attempts to log in as one user, from however many addresses they come."""
    if rates is not None and caller_of(scope).kind is not CallerKind.KEY:
        await rates.acquire(rates.rest, f"name:{username.casefold()[:MAX_USERNAME_CHARS]}", RateClass.AUTHENTICATION)
