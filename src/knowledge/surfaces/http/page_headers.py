"""Security headers of every HTML page and of the scripts and styles that it loads."""

from __future__ import annotations

from starlette.responses import Response

CONTENT_SECURITY_POLICY = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "font-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
))  # fmt: skip
"""Files of this server only, nothing inline, and no string ever becomes HTML or code (Trusted Types)."""

ASSET_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""For scripts, styles and pictures of a page: pages of other origins cannot load them."""
PAGE_HEADERS = {
    **ASSET_HEADERS,
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""For every HTML answer."""


def page_response(html: str | bytes) -> Response:
    return Response(html, media_type="text/html", headers=PAGE_HEADERS)


def asset_response(content: str | bytes, media_type: str) -> Response:
    return Response(content, media_type=media_type, headers=ASSET_HEADERS)
