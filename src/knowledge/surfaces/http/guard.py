"""Middleware in front of REST, MCP and pages: authentication, Host and Origin checks, limits on wrong keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.config import Settings
from knowledge.errors import InvalidKey, KnowledgeError, MissingKey, RateLimited, SessionEnded, Unauthenticated
from knowledge.model import Caller, CallerKind
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX
from knowledge.model.oauth import ACCESS_TOKEN_PREFIX
from knowledge.model.sessions import BrowserSession
from knowledge.surfaces.http.auth import (
    EVENTS_PATH,
    Authenticator,
    Surface,
    caller_of,
    is_direct,
    key_of,
    session_ended_error,
)
from knowledge.surfaces.http.browser_sessions import (
    SESSION_PATH,
    VISITOR_SCOPE_KEY,
    Visitor,
    read_cookie,
)
from knowledge.surfaces.http.origins import OriginPolicy, parse_origin_list
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, address_key_of, address_of
from knowledge.surfaces.http.responses import STREAM_PATH, error_response
from knowledge.surfaces.http.wrong_keys import WrongKeys
from knowledge.toolsets.base import RateClass
from knowledge.wire.sessions import SESSION_HEADER

PUBLIC_PATHS = frozenset({"/health", "/api/v1/health", "/ready", "/api/v1/ready"})
METRICS_PATH = "/metrics"
"""Belongs to REST: it needs the same key."""
KEYLESS_PATHS = frozenset({"/api/v1/user/register", "/api/v1/user/login"})
EXPOSED_HEADERS = [
    "X-MCP-Error-Code", "Mcp-Session-Id", "WWW-Authenticate", "Retry-After",
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
]  # fmt: skip
MCP_PATH = re.compile(r"(/mcp|/sse|/[^/]+/mcp)(/.*)?", re.DOTALL)
"""`/mcp/<toolset>` and its second address `/<toolset>/mcp`, and where clients of the older SSE transport ask."""
OAUTH_PATH = re.compile(r"/token|/register|/revoke|/\.well-known/oauth-(authorization-server|protected-resource)(/.*)?")
"""What clients of OAuth call without a key, also from web pages; `surfaces/oauth` has the routes."""
BROWSER_HEADERS = ("origin", "sec-fetch-site")
"""Headers that browsers send and other programs usually do not."""
REFUSAL_SCOPE_KEY = "knowledge.refusal"
RefusalReport: TypeAlias = Callable[[Scope, KnowledgeError], None]
"""Takes note of a request to MCP that was refused."""


def wrap_in_guard(
    app: ASGIApp,
    settings: Settings,
    authenticator: Authenticator | None = None,
    rates: RateLimits | None = None,
    report_refusal: RefusalReport | None = None,
) -> ASGIApp:
    """Wrap an application in authentication, host and origin checks, and CORS."""
    policy = OriginPolicy.from_settings(settings)
    authenticator = authenticator or Authenticator.from_settings(settings)
    app = ForwardedSessions(app, authenticator)
    if rates is not None and rates.wrong_keys is not None:
        app = GuessLimit(app, rates.wrong_keys)
    app = Guard(
        policy.trust_proxy_headers(app),
        policy.trust_proxy_headers(RefusalApp(rates, authenticator, report_refusal)),
        authenticator,
        policy,
    )
    origins = parse_origin_list(settings.cors_origins)
    if not origins:
        return app
    return CORSMiddleware(app, origins, allow_methods=["*"], allow_headers=["*"], expose_headers=EXPOSED_HEADERS)


def surface_of(path: str) -> Surface:
    """Return the surface of a path; ignores a line break at its end, as Starlette's route patterns do."""
    path = path.removesuffix("\n")
    if path == "/api/v1/mcp" or path.startswith("/api/v1/mcp/"):
        return Surface.MANAGER
    if MCP_PATH.fullmatch(path):
        return Surface.MCP
    return Surface.REST if path.startswith("/api/") or path == METRICS_PATH else Surface.PAGE


class Guard:
    """Authenticates the caller and rejects disallowed hosts and origins before the body is read."""

    def __init__(self, app: ASGIApp, refusal_app: ASGIApp, authenticator: Authenticator, policy: OriginPolicy) -> None:
        self._app, self._refusal_app = app, refusal_app
        self._authenticator = authenticator
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope["surface"] = surface_of(scope["path"])
            if scope["surface"] is not Surface.PAGE:
                send = send_without_caching(send)
            try:
                scope["caller"] = await self._admit(scope)
            except KnowledgeError as error:
                await self._refusal_app({**scope, REFUSAL_SCOPE_KEY: error}, receive, send)
                return
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Caller:
        path, headers = scope["path"], Headers(scope=scope)
        if path in PUBLIC_PATHS:
            return Caller()
        if OAUTH_PATH.fullmatch(path):  # for clients of any origin; they answer with 404 if OAuth is off
            self._policy.check_host(scope, headers)
            return Caller()
        surface, key = scope["surface"], key_of(headers)
        if surface is not Surface.PAGE:
            self._policy.check_fetch_site(headers)
        if key is None:  # before authentication: a foreign page must not use up the rate limit of this address
            self._policy.check_origin(scope, headers)
        if path == SESSION_PATH or (key is None and surface is Surface.REST and path not in KEYLESS_PATHS):
            caller = await self._admit_browser(scope, headers, key)
        elif path in KEYLESS_PATHS:
            caller = self._authenticator.identify_operator(key)
        else:
            caller = await self._authenticator.identify(surface, key, direct=is_direct(scope), path=path)
        if surface is not Surface.REST or caller.kind is CallerKind.LOCAL or caller.session is not None:
            self._policy.check_host(scope, headers)
            self._policy.check_origin(scope, headers)
            if surface is Surface.REST and any(name in headers for name in BROWSER_HEADERS):
                self._policy.check_form(scope, headers)
        return caller

    async def _admit_browser(self, scope: Scope, headers: Headers, key: str | None) -> Caller:
        """Identify the caller of REST by its key, its cookie or its connection; a key wins over a cookie.

        On a server that needs no key nobody logs in, so the cookie is not read. The cookie counts only for requests of
        this server's own pages.
        """
        authenticator, is_https = self._authenticator, self._policy.is_https(scope, headers)
        is_open = authenticator.is_open(Surface.REST, direct=is_direct(scope))
        own = key is None and not is_open and self._policy.is_own_page(scope, headers)
        token = read_cookie(headers, is_https=is_https) if own else None
        known: Caller | None = None
        session: BrowserSession | None = None
        try:
            if token is not None:
                self._policy.check_own_page(scope, headers)
                active = await authenticator.identify_session(token, scope["path"])
                known, session = active.caller, active.session
            else:
                known = await authenticator.identify(Surface.REST, key, direct=is_direct(scope), path=scope["path"])
        except (MissingKey, SessionEnded):
            if scope["path"] != SESSION_PATH:
                raise
        scope[VISITOR_SCOPE_KEY] = Visitor(known, not is_open, is_https, session)
        return known or Caller()


class GuessLimit:
    """Rejects the operator's keys, also correct ones, from an address that tried too many different wrong keys."""

    def __init__(self, app: ASGIApp, wrong_keys: WrongKeys) -> None:
        self._app, self._wrong_keys = app, wrong_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope)
        if caller.kind is CallerKind.KEY and caller.session is None:  # a session's token has 256 random bits
            try:
                self._wrong_keys.check(address_of(scope))
            except RateLimited as error:
                await _send_refusal(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


class ForwardedSessions:
    """Lets a process of the operator call for a browser session, which it names in SESSION_HEADER."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app, self._authenticator = app, authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["surface"] is Surface.REST:
            token = Headers(scope=scope).get(SESSION_HEADER)
            caller = caller_of(scope)
            if token is not None and caller.kind is not CallerKind.ACCOUNT and caller.session is None:
                try:
                    await self._change_caller(scope, token)
                except KnowledgeError as error:
                    await error_response(scope["path"], error)(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _change_caller(self, scope: Scope, token: str) -> None:
        """Act for the session; the process that forwards it has verified that the operator's key is still the same."""
        find = self._authenticator.find_session
        if token.startswith(ACCESS_TOKEN_PREFIX):
            # Every call of the engine verifies the token; who sends it here has verified where it holds.
            scope["caller"] = await self._authenticator.find_token_caller(token)
            return
        found = await find(token, scope["path"] != EVENTS_PATH) if find is not None else None
        if found is None:
            raise session_ended_error()
        scope["caller"] = found.caller
        scope[VISITOR_SCOPE_KEY] = Visitor(found.caller, True, False, found.session)


class RefusalApp:
    """Sends the error of a rejected request, and rate limits failed authentication per address."""

    def __init__(
        self, rates: RateLimits | None, authenticator: Authenticator, report_refusal: RefusalReport | None = None
    ) -> None:
        self._rates, self._authenticator, self._report_refusal = rates, authenticator, report_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = cast(KnowledgeError, scope[REFUSAL_SCOPE_KEY])
        drawn: Allowance | None = None
        if self._rates is not None and isinstance(error, Unauthenticated) and not self._guesses_nothing(error, scope):
            try:
                self._count_guess(self._rates.wrong_keys, error, scope)
                drawn = await self._rates.acquire(self._rates.rest, address_key_of(scope), RateClass.AUTHENTICATION)
            except RateLimited as limited:
                error = limited
        if self._report_refusal is not None and scope["surface"] in (Surface.MCP, Surface.MANAGER):
            self._report_refusal(scope, error)
        await _send_refusal(error, scope, receive, send if drawn is None else send_with_headers(drawn.headers, send))

    def _guesses_nothing(self, error: KnowledgeError, scope: Scope) -> bool:
        """Whether nobody guesses a secret: with OAuth, clients begin without a key, and tokens have 256 random bits."""
        key = key_of(Headers(scope=scope))
        begins = self._authenticator.tokens is not None and (key is None or self._authenticator.is_token(key))
        return begins or guesses_nothing(error, scope)

    @staticmethod
    def _count_guess(wrong_keys: WrongKeys | None, error: KnowledgeError, scope: Scope) -> None:
        """Count a wrong key of the operator; keys of accounts have 256 random bits and cannot be guessed."""
        key = key_of(Headers(scope=scope)) if isinstance(error, InvalidKey) else None
        if wrong_keys is None or key is None or key.startswith(ACCOUNT_KEY_PREFIX):
            return
        wrong_keys.check(address_of(scope))
        wrong_keys.add(address_of(scope), key)


def guesses_nothing(error: KnowledgeError, scope: Scope) -> bool:
    """Whether our own page sent a request after its session ended: it must still be able to log in."""
    headers = Headers(scope=scope)
    is_own_page = headers.getlist("sec-fetch-site") == ["same-origin"]
    return isinstance(error, SessionEnded) or (key_of(headers) is None and is_own_page)


def send_without_caching(send: Send) -> Send:
    """Return a `send` that forbids browsers and proxies to store a response, unless the route allows it."""

    async def send_uncached(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).setdefault("cache-control", "no-store")
        await send(message)

    return send_uncached


def send_with_headers(headers: Mapping[str, str], send: Send) -> Send:
    """Return a `send` that adds headers to the response."""
    added = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def send_with_added(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return send_with_added


async def _send_refusal(error: KnowledgeError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": str(error)[:120]})
        return
    surface = scope["surface"]
    if surface in (Surface.MCP, Surface.MANAGER) and scope["path"] != STREAM_PATH:
        from knowledge.surfaces.mcp.endpoint import refuse_request  # imports the SDK, which only MCP needs
        from knowledge.toolsets.manager.errors import refuse

        await refuse_request(error, receive, send, refuse if surface is Surface.MANAGER else None)
    else:
        await error_response(scope["path"], error)(scope, receive, send)
