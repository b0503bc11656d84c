"""Browser sessions over HTTP: the cookie, and what the routes need to know about the browser."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from knowledge.model import Caller
from knowledge.model.sessions import BrowserSession
from knowledge.surfaces.http.auth import caller_of

SESSION_PATH = "/api/v1/session"
HTTPS_COOKIE, HTTP_COOKIE = "__Host-knowledge", "knowledge_session"
"""The prefix __Host- makes the browser refuse the cookie from other hosts and over http."""
STAY_SECONDS = 30 * 24 * 3600
"""How long the browser keeps the cookie of a session with `stay`; every GET /session starts it anew."""
VISITOR_SCOPE_KEY = "knowledge.visitor"


@dataclass(frozen=True, slots=True)
class Visitor:
    """The browser or program behind a request."""

    caller: Caller | None
    """None if nobody is logged in and a login is needed."""
    login_required: bool = False
    """Whether a caller without a key and a session is refused."""
    is_https: bool = False
    session: BrowserSession | None = None


def visitor_of(scope: Scope) -> Visitor:
    """Return what the guard found out about the browser; without a guard everybody is the local owner."""
    known = scope.get(VISITOR_SCOPE_KEY)
    return known if isinstance(known, Visitor) else Visitor(caller_of(scope))


def read_cookie(headers: Headers, *, is_https: bool) -> str | None:
    """Return the token of the session cookie; over https the cookie of http does not count."""
    name = HTTPS_COOKIE if is_https else HTTP_COOKIE
    found = [cookie_parser(line).get(name) for line in headers.getlist("cookie") if name in line]
    return found[0] if found else None


def set_cookie(response: Response, token: str, *, is_https: bool, stay: bool) -> None:
    """Send the token; without `stay` the browser forgets it when it is closed."""
    response.set_cookie(
        HTTPS_COOKIE if is_https else HTTP_COOKIE,
        token,
        max_age=STAY_SECONDS if stay else None,
        path="/",
        secure=is_https,
        httponly=True,
        samesite="strict",
    )


def clear_cookie(response: Response, *, is_https: bool) -> None:
    """Delete the cookie, and what the browser has stored and cached of this server."""
    response.delete_cookie(
        HTTPS_COOKIE if is_https else HTTP_COOKIE, path="/", secure=is_https, httponly=True, samesite="strict"
    )
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
