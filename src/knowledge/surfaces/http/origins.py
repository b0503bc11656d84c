"""Checks the headers Host, Origin and Sec-Fetch-Site.

Host protects against DNS rebinding: it must name this server. Origin and Sec-Fetch-Site protect against cross-site
requests (CSRF): only this server's own pages and the listed ones may call it from a browser.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from knowledge.config import Settings
from knowledge.errors import Forbidden, UnsupportedFormat
from knowledge.surfaces.http.auth import is_loopback

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

HOST_PATTERN = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
"""A name or an address with an optional port (RFC 9110 §7.2)."""
MAX_HOST_CHARS = 300
DEFAULT_PORTS = {"http": 80, "https": 443}
HTTP_SCHEMES = {"ws": "http", "wss": "https"}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FORM_TYPES = frozenset({"application/json", "multipart/form-data"})
OWN_SITE_VALUES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for a page of this server and for a URL that the user typed."""


class WebOrigin(NamedTuple):
    scheme: str
    host: str
    port: int


def split_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_origin_list(text: str) -> list[str]:
    """Parse the origins of a setting into the form that browsers send: lower case, no trailing slash."""
    return [origin.lower().rstrip("/") for origin in split_commas(text)]


def parse_host_name(value: str) -> str:
    """Return the name or address in a Host header without its port; empty if it is malformed."""
    return _split_host(value)[0]


def _split_host(value: str) -> tuple[str, int | None]:
    return _split_host_cached(value) if len(value) <= MAX_HOST_CHARS else ("", None)


@lru_cache(256)
def _split_host_cached(value: str) -> tuple[str, int | None]:
    found = HOST_PATTERN.fullmatch(value)
    if found is None:
        return "", None
    name, port = found.groups()
    return name.strip("[]").lower().rstrip("."), int(port) if port else None


def parse_origin(text: str) -> WebOrigin | None:
    """Parse an Origin header; None for `null` and for schemes other than http and https."""
    scheme, _, host = text.partition("://")
    return _make_origin(scheme.lower(), host)


def _make_origin(scheme: str, host: str) -> WebOrigin | None:
    name, port = _split_host(host)
    default = DEFAULT_PORTS.get(scheme)
    if not name or default is None:
        return None
    return WebOrigin(scheme, name, default if port is None else port)


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """The accepted host names and origins, and the proxies whose X-Forwarded headers are trusted."""

    names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    proxies: tuple[Network, ...] = ()
    public: WebOrigin | None = None
    """The origin of KNOWLEDGE_PUBLIC_URL, if OAuth is on."""

    @classmethod
    def from_settings(cls, settings: Settings) -> OriginPolicy:
        names = {parse_host_name(name) or name for name in split_commas(settings.mcp_allowed_hosts.lower())}
        if settings.oauth:
            names.add(parse_host_name(settings.public_origin.partition("://")[2]))
        proxies = tuple(ipaddress.ip_network(text, strict=False) for text in split_commas(settings.trusted_proxies))
        public = parse_origin(settings.public_origin) if settings.oauth else None
        return cls(frozenset(names), frozenset(parse_origin_list(settings.cors_origins)), proxies, public)

    def trust_proxy_headers(self, app: ASGIApp) -> ASGIApp:
        """Wrap the application so that the client address comes from the trusted proxies."""
        if not self.proxies:
            return app
        networks = [str(network) for network in self.proxies]
        return cast(ASGIApp, ProxyHeadersMiddleware(cast(Any, app), networks))

    def check_host(self, scope: Scope, headers: Headers) -> None:
        """Protects against DNS rebinding: the Host header must name this server."""
        given = headers.getlist("host")
        host = parse_host_name(given[0]) if len(given) == 1 else ""
        if host and (
            self._is_own_name(host) or host == _find_local_address(scope) or self._comes_from_remote_proxy(scope)
        ):
            return
        shown = ", ".join(given)[:80]
        raise Forbidden(
            f"The Host header '{shown}' does not name this server",
            hint="Use the server's IP address, or add the name to KB_MCP_ALLOWED_HOSTS.",
            host=shown,
        )

    def check_origin(self, scope: Scope, headers: Headers) -> None:
        """Protects against cross-site request forgery (CSRF): Origin must be this server or a listed one."""
        for origin in headers.getlist("origin"):
            if not (self._is_listed(origin) or self._is_own(origin, scope, headers)):
                raise _foreign_origin_error(origin)

    def check_fetch_site(self, headers: Headers) -> None:
        """Protects against cross-site requests without Origin: images, frames, links and forms with GET.

        A browser that reports another site needs a listed Origin; other clients do not send Sec-Fetch-Site.
        """
        sites = headers.getlist("sec-fetch-site")
        if all(site in OWN_SITE_VALUES for site in sites):
            return
        origins = headers.getlist("origin")
        if not origins or not all(map(self._is_listed, origins)):
            raise _foreign_origin_error(", ".join(origins) or "another site")

    def check_form(self, scope: Scope, headers: Headers) -> None:
        """Protects a browser's caller against forged forms (CSRF): a change is sent as JSON or as multipart."""
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        if _is_safe(scope) or not given or given in FORM_TYPES or given.endswith("+json"):
            return
        raise UnsupportedFormat(
            f"The content type {given[:80]} is not supported from a browser",
            hint="Send JSON with 'Content-Type: application/json', or a file as multipart/form-data.",
            content_type=given[:80],
        )

    def check_own_page(self, scope: Scope, headers: Headers) -> None:
        """Protects sessions against cross-site request forgery (CSRF): only this server's own page may change data.

        A cookie is sent for other ports of the same host too, so SameSite alone is not enough.
        """
        if _is_safe(scope) or headers.getlist("sec-fetch-site") == ["same-origin"]:
            return
        if not headers.getlist("origin") or not self.is_own_page(scope, headers):
            raise Forbidden(
                "A change in a browser session needs the header Origin of this server",
                hint="Programs send an API key instead of a cookie: 'Authorization: Bearer KEY'.",
            )

    def is_own_page(self, scope: Scope, headers: Headers) -> bool:
        """Whether nothing says that a request comes from a page of another origin."""
        sites = headers.getlist("sec-fetch-site")
        return all(site in OWN_SITE_VALUES for site in sites) and all(
            self._is_own(origin, scope, headers) for origin in headers.getlist("origin")
        )

    def is_https(self, scope: Scope, headers: Headers) -> bool:
        """Whether the browser uses https; behind a trusted proxy X-Forwarded-Proto says so."""
        return self._find_scheme(scope, headers) == "https"

    def _is_own_name(self, host: str) -> bool:
        return is_loopback(host) or host in self.names or "*" in self.names

    def _is_listed(self, origin: str) -> bool:
        # Any page can make a sandboxed frame with the origin `null`, so not even `*` includes it.
        return origin != "null" and (origin.lower() in self.origins or "*" in self.origins)

    def _is_own(self, origin: str, scope: Scope, headers: Headers) -> bool:
        page = parse_origin(origin)
        return page is not None and page in (self.public, self._find_own_origin(scope, headers))

    def _find_own_origin(self, scope: Scope, headers: Headers) -> WebOrigin | None:
        """Return the origin of this server as the browser sees it; a trusted proxy forwards scheme and host."""
        host = headers.get("host", "")
        if self._comes_from_proxy(scope):
            forwarded = _first_forwarded_value(headers, "x-forwarded-host")
            if self._is_own_name(parse_host_name(forwarded)) or self._comes_from_remote_proxy(scope):
                host = forwarded or host
        return _make_origin(self._find_scheme(scope, headers), host)

    def _find_scheme(self, scope: Scope, headers: Headers) -> str:
        scheme: str = scope.get("scheme", "http")
        if self._comes_from_proxy(scope):
            scheme = _first_forwarded_value(headers, "x-forwarded-proto") or scheme
        return HTTP_SCHEMES.get(scheme, scheme)

    def _comes_from_proxy(self, scope: Scope) -> bool:
        address = _parse_address(scope.get("client"))
        return address is not None and any(address in network for network in self.proxies)

    def _comes_from_remote_proxy(self, scope: Scope) -> bool:
        """Whether a trusted proxy on another machine sent this; on loopback it could be a browser as well."""
        address = _parse_address(scope.get("client"))
        return address is not None and not address.is_loopback and self._comes_from_proxy(scope)


def _is_safe(scope: Scope) -> bool:
    """Whether a request changes nothing; a WebSocket begins with GET."""
    return scope.get("method", "GET") in SAFE_METHODS


def _first_forwarded_value(headers: Mapping[str, str], name: str) -> str:
    """Return the first value of a forwarded header, which is the browser's; each proxy appends its own."""
    return headers.get(name, "").partition(",")[0].strip().lower()


def _foreign_origin_error(origin: str) -> Forbidden:
    return Forbidden(
        f"Cross-origin request from {origin[:80]} refused",
        hint="Add the page's origin to KNOWLEDGE_CORS_ORIGINS. Behind a TLS proxy, add the proxy to "
        "KNOWLEDGE_TRUSTED_PROXIES and let it send X-Forwarded-Proto.",
        origin=origin[:80],
    )


def _find_local_address(scope: Scope) -> str:
    """Return the server's address of this connection, which DNS rebinding cannot forge."""
    return str(_parse_address(scope.get("server")) or "")


def _parse_address(end: tuple[str, int] | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(end[0]) if end else None
    except ValueError:
        return None
