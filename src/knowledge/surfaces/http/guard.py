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
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX
from knowledge.surfaces.http.auth import Authenticator, Surface, caller_of, is_direct, key_of
from knowledge.surfaces.http.origins import OriginPolicy, parse_origin_list
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, address_key_of, address_of
from knowledge.surfaces.http.responses import STREAM_PATH, error_response
from knowledge.surfaces.http.wrong_keys import WrongKeys
from knowledge.toolsets.base import RateClass

PUBLIC_PATHS = frozenset({"/health", "/api/v1/health"})
KEYLESS_PATHS = frozenset({"/api/v1/user/register", "/api/v1/user/login"})
EXPOSED_HEADERS = [
    "X-MCP-Error-Code", "Mcp-Session-Id", "WWW-Authenticate", "Retry-After",
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
]  # fmt: skip
REFUSAL_SCOPE_KEY = "knowledge.refusal"


def wrap_in_guard(
    app: ASGIApp, settings: Settings, authenticator: Authenticator | None = None, rates: RateLimits | None = None
) -> ASGIApp:
    """The application behind its guard."""
    policy = OriginPolicy.from_settings(settings)
    if rates is not None and rates.wrong_keys is not None:
        app = GuessLimit(app, rates.wrong_keys)
    app = Guard(
        policy.trust_proxy_headers(app),
        policy.trust_proxy_headers(RefusalApp(rates)),
        authenticator or Authenticator.from_settings(settings),
        policy,
    )
    origins = parse_origin_list(settings.cors_origins)
    if not origins:
        return app
    return CORSMiddleware(app, origins, allow_methods=["*"], allow_headers=["*"], expose_headers=EXPOSED_HEADERS)


def surface_of(path: str) -> Surface:
    """What a path belongs to; a line break at its end is left out, as the patterns of Starlette's routes do."""
    path = path.removesuffix("\n")
    if path == "/api/v1/mcp" or path.startswith("/api/v1/mcp/"):
        return Surface.MANAGER
    if path == "/mcp" or path.startswith("/mcp/"):
        return Surface.MCP
    return Surface.REST if path.startswith("/api/") else Surface.PAGE


class Guard:
    """Finds out who is asking, and refuses whom it should before anything is read."""

    def __init__(self, app: ASGIApp, refusal_app: ASGIApp, authenticator: Authenticator, policy: OriginPolicy) -> None:
        self._app, self._refusal_app = app, refusal_app
        self._authenticator = authenticator
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope["side"] = surface_of(scope["path"])
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
        side, key = scope["side"], key_of(headers)
        if side is not Surface.PAGE:
            self._policy.check_fetch_site(headers)
        if key is None:  # before the key is missed: a page elsewhere must not use up the limit of this address
            self._policy.check_origin(scope, headers)
        if path in KEYLESS_PATHS:
            caller = self._authenticator.identify_operator(key)
        else:
            caller = await self._authenticator.identify(side, key, direct=is_direct(scope))
        if side is not Surface.REST or caller.kind is CallerKind.LOCAL:
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
                await _send_refusal(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


class RefusalApp:
    """Answers those who were not let in; who shows wrong keys is counted by address, and slowed down."""

    def __init__(self, rates: RateLimits | None) -> None:
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = cast(KnowledgeError, scope[REFUSAL_SCOPE_KEY])
        drawn: Allowance | None = None
        if self._rates is not None and isinstance(error, Unauthenticated):
            try:
                self._count_guess(self._rates.wrong_keys, error, scope)
                drawn = await self._rates.acquire(self._rates.rest, address_key_of(scope), RateClass.AUTHENTICATION)
            except RateLimited as limited:
                error = limited
        await _send_refusal(error, scope, receive, send if drawn is None else send_with_headers(drawn.headers, send))

    @staticmethod
    def _count_guess(wrong_keys: WrongKeys | None, error: KnowledgeError, scope: Scope) -> None:
        """Refused with the same words as a right key would be. An account's key is no guess: it has 256 random bits."""
        key = key_of(Headers(scope=scope)) if isinstance(error, InvalidKey) else None
        if wrong_keys is None or key is None or key.startswith(ACCOUNT_KEY_PREFIX):
            return
        wrong_keys.check(address_of(scope))
        wrong_keys.add(address_of(scope), key)


def send_with_headers(headers: Mapping[str, str], send: Send) -> Send:
    """Sends an answer with more in its head."""
    more = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _send_refusal(error: KnowledgeError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": str(error)[:120]})
        return
    side = scope["side"]
    if side in (Surface.MCP, Surface.MANAGER) and scope["path"] != STREAM_PATH:
        from knowledge.surfaces.mcp.endpoint import refuse_request  # imports the SDK, which only MCP needs
        from knowledge.toolsets.manager.errors import refuse

        await refuse_request(error, receive, send, refuse if side is Surface.MANAGER else None)
    else:
        await error_response(scope["path"], error)(scope, receive, send)
