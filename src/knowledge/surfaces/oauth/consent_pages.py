"""The HTML of the login and consent pages, which work without JavaScript."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from starlette.responses import Response

from knowledge.model.oauth import OAuthScope
from knowledge.surfaces.http.page_headers import PAGE_HEADERS, asset_response
from knowledge.surfaces.oauth.authorization_request import AuthorizationRequest

STYLE_PATH = "/authorize/style.css"
CONSENT_HEADERS = {
    **PAGE_HEADERS,
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}
"""With `no-referrer`, as other pages have it, Chromium sends the forms with `Origin: null`."""
SCOPE_LABELS = {
    OAuthScope.READ: "Search and read your documents",
    OAuthScope.WRITE: "Add, change and remove documents",
    OAuthScope.ADMIN: "Manage your account, its API keys, and the server if you are an admin",
}


def login_page(request: AuthorizationRequest, problem: str = "") -> Response:
    error = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    return _page(
        "Log in",
        f"""<h1>Log in</h1>
<p><strong>{_client_name(request)}</strong> wants to use this knowledge base for you.</p>
{error}
<form method="post" action="/authorize">
{_hidden(request, "login")}
<label>Username <input name="username" autocomplete="username" autocapitalize="off" spellcheck="false" required></label>
<label>Password or API key
<input name="password" type="password" autocomplete="current-password" required></label>
<div class="choices"><button class="primary">Log in</button></div>
</form>""",
        401 if problem else 200,
    )


def consent_page(request: AuthorizationRequest, username: str, csrf: str) -> Response:
    host = request.client_host
    known = f"<dd>{escape(host)}</dd>" if host else "<dd>It registered itself; nobody has verified its name.</dd>"
    warning = (
        '<p class="problem">The app runs on the computer of this browser. Every program there can use this name: '
        "allow it only if you have just started the connection yourself.</p>"
        if request.is_loopback
        else ""
    )
    return _page(
        "Allow access",
        f"""<h1>Allow {_client_name(request)}?</h1>
<p>It wants to use this knowledge base as <strong>{escape(username)}</strong>.</p>
<dl>
<dt>The app's address</dt>{known}
<dt>The answer goes to</dt><dd>{escape(request.redirect_host)}</dd>
<dt>It can use</dt><dd>{escape(request.resource)}</dd>
</dl>
{warning}
<form method="post" action="/authorize">
{_hidden(request, "")}<input type="hidden" name="csrf" value="{escape(csrf)}">
<fieldset><legend>It may</legend>{"".join(_scope_choice(scope) for scope in request.scopes)}</fieldset>
<div class="choices">
<button class="primary" name="action" value="allow">Allow</button>
<button name="action" value="deny">Deny</button>
<button class="quiet" name="action" value="logout">Use another account</button>
</div>
</form>""",
    )


def answer_page(url: str, name: str, title: str) -> Response:
    """Show a page that goes on to the client by itself: `form-action` forbids a redirect from the form.

    A private scheme needs a click in some browsers, so there is a link as well.
    """
    shown = escape(url)
    return _page(
        title,
        f"""<h1>{escape(title)}</h1>
<p><a class="primary" href="{shown}" rel="noreferrer">Go on to {escape(name) or "the app"}</a></p>
<p class="small">You can close this window when the app says that it is connected.</p>""",
        head=f'<meta http-equiv="refresh" content="0; url={shown}">',
    )


def error_page(message: str, url: str = "", status: int = 400) -> Response:
    """Explain why a request is refused; going back to the client is the person's choice (no open redirect)."""
    back = f'<p><a href="{escape(url)}" rel="noreferrer">Tell the app</a></p>' if url else ""
    return _page(
        "This does not work",
        f'<h1>This does not work</h1><p class="problem" role="alert">{escape(message)}</p>{back}',
        status,
    )


def style_response() -> Response:
    return asset_response(_read_style(), "text/css")


@cache
def _read_style() -> bytes:
    colours = files("knowledge.surfaces.web").joinpath("static", "tokens.css").read_bytes()
    return colours + files("knowledge.surfaces.oauth").joinpath("static", "consent.css").read_bytes()


def _client_name(request: AuthorizationRequest) -> str:
    return escape(request.client.name or "An app without a name")


def _hidden(request: AuthorizationRequest, action: str) -> str:
    named = f'<input type="hidden" name="action" value="{action}">' if action else ""
    return f'{named}<input type="hidden" name="request" value="{escape(request.query)}">'


def _scope_choice(scope: str) -> str:
    label = SCOPE_LABELS[OAuthScope(scope)]
    if scope == OAuthScope.READ:
        box = '<input type="hidden" name="scope" value="read"><input type="checkbox" checked disabled>'
    else:
        checked = "" if scope == OAuthScope.ADMIN else " checked"
        box = f'<input type="checkbox" name="scope" value="{scope}"{checked}>'
    return f'<label class="choice">{box} {label}</label>'


def _page(title: str, body: str, status: int = 200, head: str = "") -> Response:
    html = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} – Knowledge</title>
<link rel="stylesheet" href="{STYLE_PATH}">
{head}
</head>
<body><main>{body}</main></body>
</html>
"""
    return Response(html, status, CONSENT_HEADERS, "text/html")
