"""Middleware of the REST API: rate limits, body size limits, and a 500 response for unexpected errors."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from functools import cached_property
from typing import cast

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import Request
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import RateLimited
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.rate_limits import (
    Allowance,
    LimitTable,
    RateLimits,
    address_key_of,
    allowance_key_of,
    rate_of_search,
)
from knowledge.surfaces.http.responses import STREAM_PATH, error_response
from knowledge.surfaces.rest.framework.dependencies import Context
from knowledge.surfaces.rest.framework.errors import BodyTooLarge, internal_error
from knowledge.toolsets.base import RateClass

log = logging.getLogger(__name__)

PREFIX = "/api/v1"
MAX_JSON_BYTES = 16 << 20
MAX_STREAM_QUERY_BYTES = 4 << 20
FORM_OVERHEAD_BYTES = 1 << 20
"""Allowance for the boundaries and the text fields around a file."""
UPLOAD_PATHS = frozenset({f"{PREFIX}/jobs", f"{PREFIX}/corpuses/{{id}}/upload"})
DRAIN_SECONDS = 10.0
MAX_USERNAME_CHARS = 64
CRAWLS_PATH = f"{PREFIX}/crawls"
SEARCH_PATH = f"{PREFIX}/search"
TOOL_PATH = f"{PREFIX}/tools/{{name}}"
ANSWER_SCOPE_KEY = "knowledge.answer"
MIN_COMPRESSED_BYTES = 1024
# Level 4 takes 0.2 ms of CPU for the 20 KB of a search and 3.6 ms for a document of 350 KB; 9 takes three times that
# and saves 4 % more.
COMPRESSION_LEVEL = 4
UNCOMPRESSED_PATH = re.compile(
    rf"{PREFIX}/(session|user/login|user/api-keys(/[0-9]++/rotate)?|admin/users/[^/]++/api-keys"
    r"|admin/(mcp-)?sessions(/[a-z]++)?|admin/oauth/[a-z/]++|(maintenance/)?backup(/[^/]++)?|documents/[^/]++/file)\n?"
)
"""Answers with secrets, and files."""
UNCOMPRESSED_TYPES = (
    *DEFAULT_EXCLUDED_CONTENT_TYPES, "image/*", "application/octet-stream", "application/pdf", "application/x-tar",
)  # fmt: skip
GZIP_REFUSED = re.compile(r"gzip\s*+;\s*+q=0(\.0*+)?(?![.\d])", re.IGNORECASE)
UNLIMITED_PATHS = ("/health", "/ready")

RATES: dict[tuple[str, str], RateClass] = {
    ("POST", "/search"): RateClass.QUERY,
    ("POST", "/mcp/query/stream"): RateClass.QUERY,
    ("POST", "/jobs"): RateClass.UPLOAD,
    ("POST", "/crawls"): RateClass.UPLOAD,
    ("POST", "/corpuses/{id}/upload"): RateClass.UPLOAD,
    ("GET", "/documents/{id}/file"): RateClass.RESOURCE,
    ("HEAD", "/documents/{id}/file"): RateClass.RESOURCE,
    ("GET", "/documents/{id}/pages"): RateClass.PAGE,
    ("GET", "/documents/{id}/pages/{number}"): RateClass.PAGE,
    ("GET", "/documents/{id}/pages/{number}/words"): RateClass.PAGE,
    ("GET", "/documents/{id}/places"): RateClass.PAGE,
    ("GET", "/documents/{id}/outline"): RateClass.PAGE,
    ("GET", "/documents/{id}/thumbnail"): RateClass.PAGE,
    ("POST", "/feedback"): RateClass.LIST,
    ("POST", "/user/register"): RateClass.AUTHENTICATION,
    ("POST", "/user/login"): RateClass.AUTHENTICATION,
    ("POST", "/session"): RateClass.AUTHENTICATION,
    ("PUT", "/user/password"): RateClass.AUTHENTICATION,
    ("DELETE", "/user"): RateClass.AUTHENTICATION,
}
"""Other routes are LIST for GET and HEAD, and MANAGEMENT for other methods."""


class Compression:
    """Compresses JSON and text for clients that accept gzip.

    Answers with secrets are left alone (BREACH), and so are files, whose length and ranges must stay as they are.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gzip = GZipMiddleware(
            app, MIN_COMPRESSED_BYTES, COMPRESSION_LEVEL, exclude_content_types=UNCOMPRESSED_TYPES
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or UNCOMPRESSED_PATH.fullmatch(scope["path"]) or _refuses_gzip(scope):
            await self._app(scope, receive, send)
        else:
            await self._gzip(scope, receive, send)


def _refuses_gzip(scope: Scope) -> bool:
    return GZIP_REFUSED.search(Headers(scope=scope).get("accept-encoding", "")) is not None


class RestMiddleware:
    """Applies the rate limit before the body is read, adds rate limit headers, and limits the size of the body.

    Logs unexpected errors of a route and answers 500 itself, because Starlette raises the error again after the handler
    for Exception, which closes the connection.
    """

    def __init__(self, app: ASGIApp, api: FastAPI, context: Context) -> None:
        self._app, self._api, self._context = app, api, context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, answer = self._find_path(scope), LimitHeadersResponse(send)
        scope[ANSWER_SCOPE_KEY] = answer
        try:
            if path is not None:
                if path != TOOL_PATH and not _is_session_search(scope, path):  # these are counted by their routes
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
        """Return the path template of the matching route, such as /api/v1/jobs/{id}; None if there is none."""
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
    """Limits the size of a request body; rejects a larger Content-Length without passing the body on."""

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
        """Drain the body before the error, because many clients read the response only after sending."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._more:
                    self._note(await self._receive())
        raise BodyTooLarge(self._max_bytes)


class LimitHeadersResponse:
    """Sends a response with rate limit headers."""

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
    """Return the rate class of a route; None if it has no limit."""
    path = path.removeprefix(PREFIX)
    if path in UNLIMITED_PATHS:
        return None
    return RATES.get((method, path), RateClass.LIST if method in ("GET", "HEAD") else RateClass.MANAGEMENT)


async def charge_call(rates: RateLimits | None, scope: Scope, path: str) -> Allowance | None:
    """Count one call of a route against the limit of its caller; only accounts and authentication have limits."""
    rate, caller = rate_of(scope["method"], path), caller_of(scope)
    if rates is None or rate is None:
        return None
    if caller.kind is CallerKind.ACCOUNT:
        caller_key = allowance_key_of(caller)
    elif rate is RateClass.AUTHENTICATION:
        caller_key = address_key_of(scope)
    else:
        return None
    return await rates.acquire(_choose_table(rates, caller, path), caller_key, rate)


def _choose_table(rates: RateLimits, caller: Caller, path: str) -> LimitTable:
    if path == STREAM_PATH:
        return rates.mcp
    # A crawl adds many documents, so in a session it has the limit of other uploads too.
    return rates.rest if path == CRAWLS_PATH else rates.table_of(caller)


def _is_session_search(scope: Scope, path: str) -> bool:
    return path == SEARCH_PATH and caller_of(scope).session is not None


async def charge_session_search(request: Request) -> None:
    """Count a search of a browser session, for which the class depends on `typing` in the body."""
    context, caller = cast(Context, request.app.state.context), caller_of(request.scope)
    if context.rates is None or caller.session is None:
        return
    rate = rate_of_search(caller, typing=_is_typing(await request.body()))
    answer = cast(LimitHeadersResponse, request.scope[ANSWER_SCOPE_KEY])
    answer.allowance = await context.rates.acquire(context.rates.session, allowance_key_of(caller), rate)


def _is_typing(body: bytes) -> bool:
    found = from_json(body) if b"typing" in body else None
    return isinstance(found, dict) and found.get("typing") is True


async def charge_username(rates: RateLimits | None, scope: Scope, username: str) -> None:
    """Limit login attempts per username, from any number of addresses."""
    if rates is not None and caller_of(scope).kind is not CallerKind.KEY:
        await rates.acquire(rates.rest, f"name:{username.casefold()[:MAX_USERNAME_CHARS]}", RateClass.AUTHENTICATION)
