"""The guard before REST, MCP and pages: who asks, and whether the host and the page that they name are ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.config import Settings
from knowledge.errors import InvalidKey, KnowledgeError, RateLimited, Unauthenticated
from knowledge.model import Caller, CallerKind
from knowledge.model.accounts import ACCOUNT_KEY
from knowledge.surfaces.http.auth import Keys, Side, caller_of, is_direct, key_of
from knowledge.surfaces.http.origins import OriginPolicy, listed_origins
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, address_of, stranger
from knowledge.surfaces.http.responses import refusal
from knowledge.surfaces.http.wrong_keys import WrongKeys
from knowledge.toolsets.base import Rate

ALWAYS_OPEN = frozenset({"/health", "/api/v1/health"})
NO_KEY_NEEDED = frozenset({"/api/v1/user/register", "/api/v1/user/login"})
STREAM = "/api/v1/mcp/query/stream"
"""Contract 001's query as server-sent events, whose refusals are events too."""
OF_THE_MANAGER = ("/api/v1/user", "/api/v1/corpuses", "/api/v1/admin")
"""Calls whose errors bear the codes of contract 001."""
EXPOSED = [
    "X-MCP-Error-Code", "Mcp-Session-Id", "WWW-Authenticate", "Retry-After",
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
]  # fmt: skip
REFUSAL = "knowledge.refusal"


def guarded(app: ASGIApp, settings: Settings, keys: Keys | None = None, rates: RateLimits | None = None) -> ASGIApp:
    """The application behind its guard."""
    policy = OriginPolicy.of(settings)
    if rates is not None and rates.wrong_keys is not None:
        app = GuessLimit(app, rates.wrong_keys)
    app = Guard(policy.behind_proxies(app), policy.behind_proxies(Turned(rates)), keys or Keys.of(settings), policy)
    origins = listed_origins(settings.cors_origins)
    if not origins:
        return app
    return CORSMiddleware(app, origins, allow_methods=["*"], allow_headers=["*"], expose_headers=EXPOSED)


def side_of(path: str) -> Side:
    if path == "/api/v1/mcp" or path.startswith("/api/v1/mcp/"):
        return Side.MANAGER
    if path == "/mcp" or path.startswith("/mcp/"):
        return Side.MCP
    return Side.REST if path.startswith("/api/") else Side.PAGE


class Guard:
    """Finds out who is asking, and refuses whom it should before anything is read."""

    def __init__(self, app: ASGIApp, turned: ASGIApp, keys: Keys, policy: OriginPolicy) -> None:
        self._app, self._turned = app, turned
        self._keys = keys
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            try:
                scope["caller"] = await self._admit(scope)
            except KnowledgeError as error:
                await self._turned({**scope, REFUSAL: error}, receive, send)
                return
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Caller:
        path, headers = scope["path"], Headers(scope=scope)
        if path in ALWAYS_OPEN:
            return Caller()
        side, key = side_of(path), key_of(headers)
        if side is not Side.PAGE:
            self._policy.check_fetch_site(headers)
        if key is None:  # before the key is missed: a page elsewhere must not use up the limit of this address
            self._policy.check_origin(scope, headers)
        if path in NO_KEY_NEEDED:
            caller = self._keys.operator(key)
        else:
            caller = await self._keys.identify(side, key, direct=is_direct(scope))
        if side is not Side.REST or caller.kind is CallerKind.LOCAL:
            self._policy.check_host(scope, headers)
            self._policy.check_origin(scope, headers)
        return caller


class GuessLimit:
    """Refuses the operator's keys, right ones too, from an address that has tried too many different wrong ones."""

    def __init__(self, app: ASGIApp, wrong_keys: WrongKeys) -> None:
        self._app, self._wrong_keys = app, wrong_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if caller_of(scope).kind is CallerKind.KEY:
            try:
                self._wrong_keys.check(address_of(scope))
            except RateLimited as error:
                await _refuse(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


class Turned:
    """Answers those who were not let in; who shows wrong keys is counted by address, and slowed down."""

    def __init__(self, rates: RateLimits | None) -> None:
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = cast(KnowledgeError, scope[REFUSAL])
        drawn: Allowance | None = None
        if self._rates is not None and isinstance(error, Unauthenticated):
            try:
                self._count_guess(self._rates.wrong_keys, error, scope)
                drawn = await self._rates.draw(self._rates.rest, stranger(scope), Rate.AUTHENTICATION)
            except RateLimited as limited:
                error = limited
        await _refuse(error, scope, receive, send if drawn is None else adding(drawn.headers, send))

    @staticmethod
    def _count_guess(wrong_keys: WrongKeys | None, error: KnowledgeError, scope: Scope) -> None:
        """Refused with the same words as a right key would be. An account's key is no guess: it has 256 random bits."""
        key = key_of(Headers(scope=scope)) if isinstance(error, InvalidKey) else None
        if wrong_keys is None or key is None or key.startswith(ACCOUNT_KEY):
            return
        wrong_keys.check(address_of(scope))
        wrong_keys.add(address_of(scope), key)


def adding(headers: Mapping[str, str], send: Send) -> Send:
    """Sends an answer with more in its head."""
    more = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _refuse(error: KnowledgeError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": str(error)[:120]})
        return
    side = side_of(scope["path"])
    if scope["path"] == STREAM:
        from knowledge.surfaces.http.sse import refused

        await refused(error)(scope, receive, send)
    elif side in (Side.MCP, Side.MANAGER):
        from knowledge.surfaces.mcp.endpoint import turn_away  # imports the SDK, which only MCP needs
        from knowledge.toolsets.manager.errors import refuse

        await turn_away(error, receive, send, refuse if side is Side.MANAGER else None)
    elif scope["path"].startswith(OF_THE_MANAGER):
        from knowledge.surfaces.rest.framework.manager_errors import worded

        await worded(error)(scope, receive, send)
    else:
        await refusal(error)(scope, receive, send)
