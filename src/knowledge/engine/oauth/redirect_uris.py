"""Redirect URIs of OAuth clients: which are allowed, and when one matches a registered one."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

MAX_URI_CHARS = 2000
MAX_REDIRECT_URIS = 20
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
URI_CHARS = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&()*+,;=%]+")
"""The characters of RFC 3986 without the fragment and without quotes, so that a URI can stand in HTML."""
PRIVATE_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
FORBIDDEN_SCHEMES = frozenset({
    "javascript", "data", "vbscript", "file", "filesystem", "blob", "about", "view-source", "intent", "ftp", "ws",
    "wss", "mailto", "tel", "sms", "jar", "chrome", "resource", "view", "content",
})  # fmt: skip
"""Schemes that run code, open local files or other programs than an OAuth client."""


def find_redirect_problem(uri: str) -> str | None:
    """Return why a client must not register a redirect URI; None if it may."""
    if len(uri) > MAX_URI_CHARS or not URI_CHARS.fullmatch(uri):
        return "has characters that are not allowed, a fragment, or is too long"
    parts = _split(uri)
    if parts is None or not PRIVATE_SCHEME.fullmatch(parts.scheme):
        return "is not an absolute URI"
    if parts.scheme in FORBIDDEN_SCHEMES:
        return f"uses the scheme '{parts.scheme}', which is not allowed"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user name or password"
    if parts.scheme == "https":
        return None if parts.hostname else "has no host"
    if parts.scheme == "http":
        return None if parts.hostname in LOOPBACK_NAMES else "must use https beyond loopback"
    return None if uri.removeprefix(f"{parts.scheme}:").strip("/") else "has neither a host nor a path"


def matches_registered(uri: str, registered: tuple[str, ...]) -> bool:
    """Whether a redirect URI is a registered one; on loopback the port may differ (RFC 8252 §7.3)."""
    if uri in registered:
        return True
    given = _loopback_without_port(uri)
    return given is not None and given in {_loopback_without_port(known) for known in registered}


def is_loopback_uri(uri: str) -> bool:
    parts = _split(uri)
    return parts is not None and parts.scheme == "http" and parts.hostname in LOOPBACK_NAMES


def _loopback_without_port(uri: str) -> tuple[str, str, str] | None:
    parts = _split(uri)
    if parts is None or not is_loopback_uri(uri) or find_redirect_problem(uri) is not None:
        return None
    return parts.hostname or "", parts.path, parts.query


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        _ = parts.port, parts.hostname
    except ValueError:
        return None
    return parts
