"""A client of OAuth for tests: registers itself, logs in and allows access as a browser would, and gets tokens."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from tests.support.accounts import PASSWORD

LOOPBACK_URI = "http://127.0.0.1:7777/callback"


@dataclass
class OAuthTestClient:
    """One client and the browser of its user, over one HTTP client."""

    http: httpx.AsyncClient
    origin: str
    redirect_uri: str = LOOPBACK_URI
    client_id: str = ""
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    state: str = "s-1"
    resource_path: str = "/mcp"

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()

    async def register(self, *uris: str, name: str = "Test Agent") -> str:
        body = {"client_name": name, "redirect_uris": [*(uris or [self.redirect_uri])]}
        answer = await self.http.post("/register", json=body)
        assert answer.status_code == 201, answer.text
        self.client_id = answer.json()["client_id"]
        return self.client_id

    def query(self, **changed: str | None) -> str:
        """Return the query of the authorization request; None leaves a parameter out."""
        given: dict[str, str | None] = {
            "response_type": "code", "client_id": self.client_id, "redirect_uri": self.redirect_uri,
            "code_challenge": self.challenge, "code_challenge_method": "S256", "state": self.state,
            "scope": "read write", "resource": self.origin + self.resource_path, **changed,
        }  # fmt: skip
        return urlencode({name: value for name, value in given.items() if value is not None})

    async def open(self, **changed: str | None) -> httpx.Response:
        return await self.http.get(f"/authorize?{self.query(**changed)}")

    async def submit(self, headers: dict[str, str] | None = None, **form: str | list[str]) -> httpx.Response:
        return await self.http.post("/authorize", data=form, headers=headers or {"origin": self.origin})

    async def log_in(self, username: str = "ada", password: str = PASSWORD, **changed: str | None) -> httpx.Response:
        """Log in and return the consent page."""
        query = self.query(**changed)
        answer = await self.submit(action="login", request=query, username=username, password=password)
        assert answer.status_code == 303, answer.text
        return await self.http.get(answer.headers["location"])

    async def allow(self, page: httpx.Response, scopes: str = "read write") -> dict[str, str]:
        """Allow access on the consent page and return the parameters of the answer."""
        answer = await self.submit(
            action="allow", request=read_field(page, "request"), csrf=read_field(page, "csrf"), scope=scopes.split()
        )
        assert answer.status_code == 200, answer.text
        return read_answer(answer, self.redirect_uri)

    async def exchange(self, code: str, **changed: str | None) -> httpx.Response:
        given: dict[str, str | None] = {
            "grant_type": "authorization_code", "client_id": self.client_id, "redirect_uri": self.redirect_uri,
            "code": code, "code_verifier": self.verifier, "resource": self.origin + self.resource_path, **changed,
        }  # fmt: skip
        return await self.http.post("/token", data={name: value for name, value in given.items() if value is not None})

    async def refresh(self, token: str, **changed: str) -> httpx.Response:
        given = {"grant_type": "refresh_token", "client_id": self.client_id, "refresh_token": token, **changed}
        return await self.http.post("/token", data=given)

    async def get_tokens(self, username: str = "ada", scopes: str = "read write") -> dict[str, Any]:
        """Go through the whole flow."""
        if not self.client_id:
            await self.register()
        page = await self.log_in(username, scope=scopes)
        answer = await self.exchange((await self.allow(page, scopes))["code"])
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def read_field(page: httpx.Response, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page.text)
    assert found is not None, page.text
    return unescape(found[1])


def read_answer_url(page: httpx.Response) -> str:
    """Return where the page sends the browser."""
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', page.text)
    assert found is not None, page.text
    return unescape(found[1])


def read_answer(page: httpx.Response, redirect_uri: str) -> dict[str, str]:
    """Return the parameters with which the page sends the browser to the client."""
    url = read_answer_url(page)
    assert url.startswith(redirect_uri), url
    return parse_answer(url)


def parse_answer(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


async def allow_in_browser(url: str, scopes: str, username: str = "ada") -> str:
    """Open an authorization request, log in, allow the scopes, and return where the browser goes then."""
    origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    async with httpx.AsyncClient(base_url=origin, headers={"origin": origin}, follow_redirects=True) as browser:
        page = await browser.get(url)
        form = {"action": "login", "request": read_field(page, "request"), "username": username, "password": PASSWORD}
        page = await browser.post("/authorize", data=form)
        form = {"action": "allow", "request": read_field(page, "request"), "csrf": read_field(page, "csrf")}
        return read_answer_url(await browser.post("/authorize", data={**form, "scope": scopes.split()}))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def call_body(tool: str, **arguments: object) -> dict[str, Any]:
    """Return a plain JSON-RPC request that calls a tool."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
