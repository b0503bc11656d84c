"""The door of the server: who may come in, and from which host and page. Plain ASGI, around REST, MCP and pages alike.

A web page somewhere else must not be able to talk to a server on this machine: neither by a name that it lets point
here (Host) nor by a call across origins (Origin). A REST call with a valid key needs no such care.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from knowledge.config import Settings
from knowledge.errors import Forbidden, KnowledgeError, RateLimited, Unauthenticated
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.answers import refusal
from knowledge.surfaces.auth import Keys, Side, is_loopback, key_of
from knowledge.surfaces.limits import Allowance, RateLimits, stranger
from knowledge.toolsets.base import Rate

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

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
    """The application behind its door."""
    hosts = Hosts.of(settings)
    app = Guard(hosts.behind_proxies(app), hosts.behind_proxies(Turned(rates)), keys or Keys.of(settings), hosts)
    origins = listed(settings.cors_origins)
    if not origins:
        return app
    return CORSMiddleware(app, origins, allow_methods=["*"], allow_headers=["*"], expose_headers=EXPOSED)


def listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def side_of(path: str) -> Side:
    if path == "/api/v1/mcp" or path.startswith("/api/v1/mcp/"):
        return Side.MANAGER
    if path == "/mcp" or path.startswith("/mcp/"):
        return Side.MCP
    return Side.REST if path.startswith("/api/") else Side.PAGE


@lru_cache(256)
def host_name(value: str) -> str:
    """The name or address in a Host header, without its port."""
    try:
        return (urlsplit(f"//{value}").hostname or "").rstrip(".")
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Which names this server answers to, and whose word about them is taken."""

    names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    proxies: tuple[Network, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Hosts:
        names = {host_name(name) or name for name in listed(settings.mcp_allowed_hosts.lower())}
        proxies = tuple(ipaddress.ip_network(text, strict=False) for text in listed(settings.trusted_proxies))
        return cls(frozenset(names), frozenset(listed(settings.cors_origins)), proxies)

    def behind_proxies(self, app: ASGIApp) -> ASGIApp:
        """The application, told by those proxies who their clients are."""
        if not self.proxies:
            return app
        networks = [str(network) for network in self.proxies]
        return cast(ASGIApp, ProxyHeadersMiddleware(cast("ASGI3Application", app), networks))

    def check(self, scope: Scope, headers: Headers) -> None:
        host, origin = host_name(headers.get("host", "")), headers.get("origin")
        if not (self._answers_to(host) or host == _own_address(scope) or self._through_proxy(scope)):
            raise Forbidden(
                f"This server does not answer to the name '{host[:80]}'",
                hint="Use its address, or list the name in KB_MCP_ALLOWED_HOSTS.",
                host=host[:80],
            )
        if origin is not None and not self._trusts(origin, host):
            raise Forbidden(
                f"Pages from {origin[:80]} may not use this server",
                hint="List the page's origin in KNOWLEDGE_CORS_ORIGINS.",
                origin=origin[:80],
            )

    def _answers_to(self, host: str) -> bool:
        return is_loopback(host) or host in self.names or "*" in self.names

    def _trusts(self, origin: str, host: str) -> bool:
        if origin in self.origins or "*" in self.origins:
            return True
        name = host_name(origin.partition("://")[2])
        return bool(name) and (name == host or is_loopback(name) or name in self.names)

    def _through_proxy(self, scope: Scope) -> bool:
        """A proxy on another machine has chosen the name itself; on this one, a browser could be in its place."""
        address = _address(scope.get("client"))
        if address is None or address.is_loopback:
            return False
        return any(address in network for network in self.proxies)


def _own_address(scope: Scope) -> str:
    """The address at which this connection arrived; a name that was bent towards us is never that."""
    return str(_address(scope.get("server")) or "")


def _address(end: tuple[str, int] | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(end[0]) if end else None
    except ValueError:
        return None


class Guard:
    """Finds out who is asking, and refuses whom it should before anything is read."""

    def __init__(self, app: ASGIApp, turned: ASGIApp, keys: Keys, hosts: Hosts) -> None:
        self._app, self._turned = app, turned
        self._keys = keys
        self._hosts = hosts

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
        side = side_of(path)
        key = key_of(headers)
        keyless = path in NO_KEY_NEEDED
        caller = self._keys.operator(key) if keyless else await self._keys.identify(side, key)
        if side is not Side.REST or caller.kind is CallerKind.LOCAL:
            self._hosts.check(scope, headers)
        return caller


class Turned:
    """Answers those who were not let in; who shows wrong keys is counted by address, and slowed down."""

    def __init__(self, rates: RateLimits | None) -> None:
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = cast(KnowledgeError, scope[REFUSAL])
        drawn: Allowance | None = None
        if self._rates is not None and isinstance(error, Unauthenticated):
            try:
                drawn = await self._rates.draw(self._rates.rest, stranger(scope), Rate.AUTHENTICATION)
            except RateLimited as limited:
                error = limited
        await _refuse(error, scope, receive, send if drawn is None else adding(drawn.headers, send))


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
        from knowledge.surfaces.events import refused

        await refused(error)(scope, receive, send)
    elif side in (Side.MCP, Side.MANAGER):
        from knowledge.surfaces.mcp.endpoint import turn_away  # imports the SDK, which only MCP needs
        from knowledge.toolsets.manager.words import refuse

        await turn_away(error, receive, send, refuse if side is Side.MANAGER else None)
    elif scope["path"].startswith(OF_THE_MANAGER):
        from knowledge.surfaces.rest.worded import worded

        await worded(error)(scope, receive, send)
    else:
        await refusal(error)(scope, receive, send)
