"""Browser sessions: login with a cookie, its rules, its end, and what it may not do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
import websockets
from playwright.async_api import async_playwright
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.crawl.browser import find_browser
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import connect
from knowledge.errors import RateLimited, SessionEnded
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.open_engine import make_shared_app
from knowledge.surfaces.http.rate_limit_storage import MemoryRateLimitStorage
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.testing import SharedParsers, make_test_engine
from knowledge.toolsets.base import RateClass
from tests.contracts.app_server import serve_app
from tests.support.accounts import PASSWORD
from tests.support.engines import wait_until_done

OWN = "http://127.0.0.1:8000"
OPERATOR_KEY = "operator-key-0123456789"
LOGIN = {"username": "ada", "password": PASSWORD}
COOKIE = "knowledge_session"
BROWSER = find_browser("auto")


@pytest.fixture
def locked(settings: Settings) -> Settings:
    """A server that needs a login."""
    keys = {"api_key": SecretStr(OPERATOR_KEY), "mcp_api_key": SecretStr(OPERATOR_KEY)}
    return settings.model_copy(update=keys)


@asynccontextmanager
async def open_browser(
    local: LocalEngine, settings: Settings, url: str = OWN, client: str = "127.0.0.1", **headers: str
) -> AsyncIterator[httpx.AsyncClient]:
    """A client that keeps cookies and sends the headers of a page of this server."""
    transport = httpx.ASGITransport(app=make_http_app(local, settings), client=(client, 5000))
    sent = {"origin": url, "sec-fetch-site": "same-origin", "user-agent": "Test Browser 1.0", **headers}
    async with httpx.AsyncClient(transport=transport, base_url=url, headers=sent) as http:
        yield http


async def log_in(http: httpx.AsyncClient, **login: Any) -> dict[str, Any]:
    reply = await http.post("/api/v1/session", json=login or LOGIN)
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def test_an_account_logs_in_with_its_password_and_acts_by_cookie(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    async with open_browser(local, locked) as http:
        before = (await http.get("/api/v1/session")).json()
        assert (before["caller"], before["username"], before["login_required"]) == (None, None, True)
        assert (await http.get("/api/v1/documents")).status_code == 401
        body = await log_in(http)
        assert (body["caller"], body["username"], body["is_admin"]) == ("account", "ada", False)
        assert body["limits"] == {"typing_per_minute": 600, "uploads_per_minute": 120}
        assert body["max_file_bytes"] == locked.max_file_bytes and body["expires_at"]
        assert {"doc_type": "pdf", "suffixes": [".pdf"]} in body["formats"]
        after = (await http.get("/api/v1/session")).json()
        assert after == body
        assert (await http.get("/api/v1/documents")).status_code == 200
        assert (await http.get("/api/v1/user")).json()["username"] == "ada"


async def test_the_cookie_is_for_this_server_and_its_scripts_cannot_read_it(
    local: LocalEngine, locked: Settings
) -> None:
    await local.accounts.register("ada", PASSWORD)
    async with open_browser(local, locked) as http:
        reply = await http.post("/api/v1/session", json=LOGIN)
        name, _, rest = reply.headers["set-cookie"].partition("=")
        assert name == COOKIE and len(rest.split(";")[0]) == 43
        attributes = {part.strip().lower() for part in rest.split(";")[1:]}
        assert attributes == {"httponly", "path=/", "samesite=strict"}, "over http and until the browser is closed"
        assert reply.headers["cache-control"] == "no-store"
        again = await http.get("/api/v1/session")
        assert "set-cookie" not in again.headers
        kept = await http.post("/api/v1/session", json={**LOGIN, "stay": True})
        assert "max-age=2592000" in kept.headers["set-cookie"].lower()
        renewed = await http.get("/api/v1/session")
        assert "max-age=2592000" in renewed.headers["set-cookie"].lower(), "every visit keeps it for 30 more days"
        assert http.cookies[COOKIE] in renewed.headers["set-cookie"]


@pytest.mark.parametrize(
    ("client", "forwarded", "is_https"),
    [("10.0.0.5", "https", True), ("10.0.0.5", "http", False), ("192.0.2.7", "https", False)],
)
async def test_over_https_the_cookie_is_secure_and_bound_to_the_host(
    local: LocalEngine, locked: Settings, client: str, forwarded: str, is_https: bool
) -> None:
    """Only a trusted proxy can say that the browser uses https."""
    await local.accounts.register("ada", PASSWORD)
    proxied = locked.model_copy(update={"trusted_proxies": "10.0.0.0/8", "mcp_allowed_hosts": "kb.example"})
    url = f"{'https' if is_https else 'http'}://kb.example"
    headers = {"host": "kb.example", "origin": url, "x-forwarded-proto": forwarded, "x-forwarded-host": "kb.example"}
    async with open_browser(local, proxied, "http://kb.example", client, **headers) as http:
        reply = await http.post("/api/v1/session", json=LOGIN)
        assert reply.status_code == 200, reply.text
        sent = reply.headers["set-cookie"]
        assert sent.startswith("__Host-knowledge=" if is_https else f"{COOKIE}=")
        assert ("secure" in sent.lower()) is is_https
        token = sent.partition("=")[2].partition(";")[0]
        http.cookies.clear()
        for name in ("__Host-knowledge", COOKIE):
            status = (await http.get("/api/v1/documents", headers={"cookie": f"{name}={token}"})).status_code
            assert status == (200 if (name == COOKIE) is not is_https else 401), "each scheme has its own cookie"


async def test_the_operator_logs_in_with_the_operators_key(local: LocalEngine, locked: Settings) -> None:
    async with open_browser(local, locked) as http:
        body = await log_in(http, api_key=OPERATOR_KEY)
        assert (body["caller"], body["username"], body["is_admin"]) == ("operator", None, True)
        assert body["limits"] == {"typing_per_minute": None, "uploads_per_minute": None}
        assert (await http.get("/api/v1/admin/users")).status_code == 200
        assert (await http.get("/api/v1/backup")).status_code == 200


async def test_an_account_logs_in_with_an_api_key(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.add("ada")
    key = (await local.accounts.issue_key("ada", "page")).secret
    async with open_browser(local, locked) as http:
        assert (await log_in(http, api_key=key))["username"] == "ada"
        assert (await http.get("/api/v1/user")).json()["username"] == "ada"


async def test_the_operators_sessions_end_when_the_key_is_changed(local: LocalEngine, locked: Settings) -> None:
    async with open_browser(local, locked) as http:
        await log_in(http, api_key=OPERATOR_KEY)
        cookie = {"cookie": f"{COOKIE}={http.cookies[COOKIE]}"}
    for api_key, expected in ((SecretStr("another-operator-key"), 401), (SecretStr(OPERATOR_KEY), 200)):
        async with open_browser(local, locked.model_copy(update={"api_key": api_key})) as http:
            assert (await http.get("/api/v1/documents", headers=cookie)).status_code == expected


WRONG_LOGINS: dict[str, dict[str, str]] = {
    "an unknown name": {"username": "eve", "password": PASSWORD},
    "a wrong password": {"username": "ada", "password": "wrong password"},
    "a disabled account": {"username": "bob", "password": PASSWORD},
    "an unknown key": {"api_key": "kn_0123456789ab_unknown"},
    "a wrong operator's key": {"api_key": "guess"},
    "an empty key": {"api_key": ""},
}


async def test_a_wrong_login_does_not_say_what_was_wrong(local: LocalEngine, locked: Settings) -> None:
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
    await local.accounts.disable("bob")
    async with open_browser(local, locked) as http:
        replies = [await http.post("/api/v1/session", json=login) for login in WRONG_LOGINS.values()]
    assert {reply.status_code for reply in replies} == {401}
    assert len({reply.text for reply in replies}) == 1
    assert replies[0].json()["error"]["message"] == "The username, the password or the API key is wrong"
    assert not any("set-cookie" in reply.headers for reply in replies)


@pytest.mark.parametrize(
    "login",
    [{}, {"username": "ada"}, {"password": "x"}, {"username": "ada", "password": "x", "api_key": "y"},
     {"username": "ada", "api_key": "y"}, {"api_key": 3}, {"api_key": "x" * 3000}, {"api_key": "x", "other": 1}],
)  # fmt: skip
async def test_a_login_needs_exactly_one_way(local: LocalEngine, locked: Settings, login: dict[str, Any]) -> None:
    async with open_browser(local, locked) as http:
        assert (await http.post("/api/v1/session", json=login)).status_code == 422


async def test_logins_are_limited_by_name_from_any_address(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    app = make_http_app(local, locked.model_copy(update={"auth_rate_limit": "2/minute"}))
    codes = []
    for number, name in enumerate(("ada", "ADA", "ada", "bob")):
        transport = httpx.ASGITransport(app=app, client=(f"203.0.113.{number}", 5000))
        async with httpx.AsyncClient(transport=transport, base_url=OWN) as http:
            reply = await http.post("/api/v1/session", json={"username": name, "password": "wrong password"})
            codes.append(reply.status_code)
            if reply.status_code == 429:
                assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert codes == [401, 401, 429, 401]


async def test_logins_are_limited_by_address(local: LocalEngine, locked: Settings) -> None:
    async with open_browser(local, locked.model_copy(update={"auth_rate_limit": "2/minute"})) as http:
        codes = [
            (await http.post("/api/v1/session", json={"username": f"user{n}", "password": "x"})).status_code
            for n in range(3)
        ]
    assert codes == [401, 401, 429]


async def test_guesses_of_the_operators_key_lock_the_login_and_not_the_session(
    local: LocalEngine, locked: Settings
) -> None:
    async with open_browser(local, locked.model_copy(update={"auth_rate_limit": "3/minute"})) as http:
        await log_in(http, api_key=OPERATOR_KEY)
        guesses = [await http.get("/api/v1/status", headers={"x-api-key": f"guess {n}"}) for n in range(3)]
        assert [reply.status_code for reply in guesses] == [401, 401, 429], "the login was the first of three attempts"
        right = await http.get("/api/v1/status", headers={"x-api-key": OPERATOR_KEY})
        assert right.status_code == 429, "from this address the key is not accepted"
        assert (await http.get("/api/v1/status")).status_code == 200, "a session cannot be guessed"
        http.cookies.clear()
        again = await http.post("/api/v1/session", json={"api_key": OPERATOR_KEY})
        assert again.status_code == 429 and "retry-after" in again.headers


async def test_guessing_by_login_counts_as_guessing_by_header(local: LocalEngine, locked: Settings) -> None:
    app = make_http_app(local, locked.model_copy(update={"auth_rate_limit": "3/minute"}))
    transport = httpx.ASGITransport(app=app, client=("203.0.113.9", 5000))
    async with httpx.AsyncClient(transport=transport, base_url=OWN) as http:
        for number in range(3):
            guess = {"api_key": f"guess {number}"}
            assert (await http.post("/api/v1/session", json=guess)).status_code == 401
        assert (await http.get("/api/v1/status", headers={"x-api-key": OPERATOR_KEY})).status_code == 429


async def test_logging_out_ends_the_session_and_clears_the_browser(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    async with open_browser(local, locked) as http:
        await log_in(http)
        cookie = {"cookie": f"{COOKIE}={http.cookies[COOKIE]}"}
        reply = await http.delete("/api/v1/session")
        assert (reply.status_code, reply.content) == (204, b"")
        assert reply.headers["clear-site-data"] == '"cache", "storage"'
        assert f"{COOKIE}=" in reply.headers["set-cookie"] and "max-age=0" in reply.headers["set-cookie"].lower()
        assert COOKIE not in http.cookies
        assert (await http.get("/api/v1/documents", headers=cookie)).status_code == 401
        assert (await http.delete("/api/v1/session")).status_code == 204, "also if nobody is logged in"
        assert (await http.delete("/api/v1/session", headers=cookie)).status_code == 204


async def test_another_login_ends_the_session_before(local: LocalEngine, locked: Settings) -> None:
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
    async with open_browser(local, locked) as http:
        await log_in(http)
        before = {"cookie": f"{COOKIE}={http.cookies[COOKIE]}"}
        assert (await log_in(http, username="bob", password=PASSWORD))["username"] == "bob"
        http.cookies.clear()
        assert (await http.get("/api/v1/user", headers=before)).status_code == 401


async def test_sessions_are_listed_and_revoked_by_their_owner_alone(local: LocalEngine, locked: Settings) -> None:
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
    app_settings = locked
    async with (
        open_browser(local, app_settings) as ada,
        open_browser(local, app_settings, **{"user-agent": "Phone"}) as phone,
        open_browser(local, app_settings) as bob,
    ):
        await log_in(ada)
        await log_in(phone)
        await log_in(bob, username="bob", password=PASSWORD)
        listed = (await ada.get("/api/v1/sessions")).json()["sessions"]
        assert [(one["user_agent"], one["current"]) for one in listed] == [
            ("Phone", False),
            ("Test Browser 1.0", True),
        ]
        assert {*listed[0]} == {
            "id", "created_at", "last_used_at", "expires_at", "stay", "user_agent", "current",
        }  # fmt: skip
        lost = f"/api/v1/sessions/{listed[0]['id']}"
        foreign = await bob.delete(lost)
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (404, "session_not_found")
        assert (await ada.delete(lost)).status_code == 204
        ended = await phone.get("/api/v1/documents")
        assert (ended.status_code, ended.json()["error"]["code"]) == (401, "session_ended")
        assert (await phone.get("/api/v1/session")).json()["caller"] is None
        assert (await ada.delete(lost)).status_code == 404
        assert (await ada.delete("/api/v1/sessions")).json() == {"revoked": 1}
        assert (await ada.get("/api/v1/documents")).status_code == 401
        assert (await bob.get("/api/v1/documents")).status_code == 200


async def test_two_accounts_in_two_browsers_see_their_own_documents(local: LocalEngine, locked: Settings) -> None:
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
    async with open_browser(local, locked) as ada, open_browser(local, locked) as bob:
        await log_in(ada)
        await log_in(bob, username="bob", password=PASSWORD)
        added = await ada.post("/api/v1/jobs", json={"note": "Ada's secret tea"})
        job = added.json()["job_id"]
        assert (await bob.get(f"/api/v1/jobs/{job}")).status_code == 404
        engine = local.as_caller(await caller_of_cookie(local, ada))
        await wait_until_done(engine, await engine.job(job))
        assert (await ada.get("/api/v1/documents")).json()["total"] == 1
        assert (await bob.get("/api/v1/documents")).json()["total"] == 0
        found = await bob.post("/api/v1/search", json={"query": "secret tea"})
        assert found.json()["results"] == []
        assert (await bob.get("/api/v1/documents/1/file")).status_code == 404
        assert (await bob.get("/api/v1/admin/users")).status_code == 403


async def caller_of_cookie(local: LocalEngine, http: httpx.AsyncClient) -> Caller:
    found = await local.sessions.find(http.cookies[COOKIE])
    assert found is not None
    return found.caller


async def test_a_key_in_a_header_wins_over_the_cookie(local: LocalEngine, locked: Settings) -> None:
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
    bob = (await local.accounts.login("bob", PASSWORD)).secret
    async with open_browser(local, locked) as http:
        await log_in(http)
        for headers in ({"x-api-key": bob}, {"authorization": f"Bearer {bob}"}):
            assert (await http.get("/api/v1/user", headers=headers)).json()["username"] == "bob"
            body = (await http.get("/api/v1/session", headers=headers)).json()
            assert body["username"] == "bob" and body["expires_at"] is None
            assert body["limits"] == {"typing_per_minute": 60, "uploads_per_minute": 10}, "the limits of keys"
        owner = await http.get("/api/v1/session", headers={"x-api-key": OPERATOR_KEY})
        assert owner.json()["caller"] == "operator"
        for wrong in ("kn_0123456789ab_wrong", "guess"):
            assert (await http.get("/api/v1/user", headers={"x-api-key": wrong})).status_code == 401
            assert (await http.get("/api/v1/session", headers={"x-api-key": wrong})).status_code == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/mcp"), ("GET", "/mcp"), ("POST", "/mcp/kb"), ("POST", "/kb/mcp"), ("POST", "/mcp/manager"),
     ("POST", "/api/v1/mcp"), ("POST", "/api/v1/mcp/"), ("POST", "/api/v1/mcp/query/stream")],
)  # fmt: skip
async def test_a_session_is_not_valid_for_mcp(local: LocalEngine, locked: Settings, method: str, path: str) -> None:
    await local.accounts.register("ada", PASSWORD)
    async with open_browser(local, locked) as http:
        for login in (LOGIN, {"api_key": OPERATOR_KEY}):
            await log_in(http, **login)
            refused = await http.request(method, path, json={"query": "tea"} if method == "POST" else None)
            assert refused.status_code == 401


async def test_the_token_is_not_an_api_key(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    async with open_browser(local, locked) as http:
        await log_in(http)
        token = http.cookies[COOKIE]
        http.cookies.clear()
        for headers in ({"x-api-key": token}, {"authorization": f"Bearer {token}"}, {"x-knowledge-session": token}):
            for path in ("/api/v1/documents", "/mcp"):
                assert (await http.get(path, headers=headers)).status_code == 401


async def test_an_ended_session_does_not_use_up_the_logins(local: LocalEngine, locked: Settings) -> None:
    """A page that finds out that its session has ended must be able to log in."""
    await local.accounts.register("ada", PASSWORD)
    async with open_browser(local, locked.model_copy(update={"auth_rate_limit": "2/minute"})) as http:
        http.cookies[COOKIE] = "ended"
        assert {(await http.get("/api/v1/documents")).status_code for _ in range(5)} == {401}
        http.cookies.clear()
        assert {(await http.get("/api/v1/documents")).status_code for _ in range(5)} == {401}
        await log_in(http)


async def test_on_a_server_without_a_key_nobody_logs_in(local: LocalEngine, settings: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    issued = await local.sessions.open_by_password("ada", PASSWORD, False, "")
    async with open_browser(local, settings) as http:
        body = (await http.get("/api/v1/session")).json()
        assert (body["caller"], body["is_admin"], body["login_required"]) == ("local", True, False)
        assert body["limits"] == {"typing_per_minute": None, "uploads_per_minute": None}
        refused = await http.post("/api/v1/session", json=LOGIN)
        assert (refused.status_code, refused.json()["error"]["message"]) == (409, "This server needs no login")
        for token in (issued.token, "of another server on another port"):
            http.cookies[COOKIE] = token
            assert (await http.get("/api/v1/session")).json()["caller"] == "local"
            assert (await http.get("/api/v1/admin/users")).status_code == 200
        assert (await http.get("/api/v1/session", headers={"x-forwarded-for": "203.0.113.9"})).json()["login_required"]


async def test_the_page_learns_whether_registration_is_open(
    settings: Settings, locked: Settings, parsers: SharedParsers
) -> None:
    closed = make_test_engine(settings.model_copy(update={"registration": False}), parsers=parsers)
    closed.start()
    try:
        async with open_browser(closed, locked) as http:
            assert (await http.get("/api/v1/session")).json()["registration_open"] is False
    finally:
        closed.close()


async def test_the_session_of_a_server_that_starts_is_unavailable(local: LocalEngine, locked: Settings) -> None:
    transport = httpx.ASGITransport(app=make_http_app(local, locked, lambda: False))
    async with httpx.AsyncClient(transport=transport, base_url=OWN) as http:
        for method in ("GET", "DELETE"):
            reply = await http.request(method, "/api/v1/session")
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "starting")


# -- cross-site requests (CSRF) -----------------------------------------------------------------

PAGE, OTHER_PORT, EVIL = {"origin": OWN}, {"origin": "http://127.0.0.1:3000"}, {"origin": "https://evil.example"}
LISTED = {"origin": "https://page.example"}
CHANGES = [("POST", "/api/v1/collections"), ("DELETE", "/api/v1/documents"), ("PATCH", "/api/v1/notes/1"),
           ("PUT", "/api/v1/user/password"), ("DELETE", "/api/v1/session"), ("DELETE", "/api/v1/sessions")]  # fmt: skip
COOKIE_REQUESTS: dict[str, tuple[dict[str, str], bool, bool]] = {
    "our page": ({**PAGE, "sec-fetch-site": "same-origin"}, True, True),
    "our page in an old browser": (PAGE, True, True),
    "our page without an Origin": ({"sec-fetch-site": "same-origin"}, True, True),
    "neither header": ({}, True, False),
    "an address that the user typed": ({"sec-fetch-site": "none"}, True, False),
    "another port": ({**OTHER_PORT, "sec-fetch-site": "same-site"}, False, False),
    "another port in an old browser": (OTHER_PORT, False, False),
    "another port without an Origin": ({"sec-fetch-site": "same-site"}, False, False),
    "another site": ({**EVIL, "sec-fetch-site": "cross-site"}, False, False),
    "another site without an Origin": ({"sec-fetch-site": "cross-site"}, False, False),
    "another site with our Origin": ({**PAGE, "sec-fetch-site": "cross-site"}, False, False),
    "another scheme": ({"origin": "https://127.0.0.1:8000"}, False, False),
    "a sandboxed frame": ({"origin": "null"}, False, False),
    "a listed page": ({**LISTED, "sec-fetch-site": "cross-site"}, False, False),
    "a listed page in an old browser": (LISTED, False, False),
}
"""Headers, whether they may read, and whether they may change data."""


@pytest.mark.parametrize(("headers", "may_read", "may_change"), COOKIE_REQUESTS.values(), ids=COOKIE_REQUESTS)
async def test_only_our_own_page_acts_by_cookie(
    local: LocalEngine, locked: Settings, headers: dict[str, str], may_read: bool, may_change: bool
) -> None:
    await local.accounts.register("ada", PASSWORD)
    listing = locked.model_copy(update={"cors_origins": LISTED["origin"]})
    issued = await local.sessions.open_by_password("ada", PASSWORD, False, "")
    transport = httpx.ASGITransport(app=make_http_app(local, listing))
    cookie = {"cookie": f"{COOKIE}={issued.token}"}
    async with httpx.AsyncClient(transport=transport, base_url=OWN, headers={**cookie, **headers}) as http:
        read = await http.get("/api/v1/documents")
        assert (read.status_code == 200) is may_read, read.text
        for method, path in CHANGES[:4]:
            reply = await http.request(method, path, json={})
            assert (reply.status_code not in (401, 403)) is may_change, (method, path, reply.text)
    assert (await local.sessions.find(issued.token)) is not None
    if not may_change:
        async with httpx.AsyncClient(transport=transport, base_url=OWN, headers={**cookie, **headers}) as http:
            for method, path in CHANGES[4:]:
                await http.request(method, path)
            assert (await local.sessions.find(issued.token)) is not None, "nobody is logged out by another page"


@pytest.mark.parametrize("keyless", [False, True])
async def test_a_websocket_to_the_api_is_refused_and_not_a_failure(
    local: LocalEngine, locked: Settings, settings: Settings, keyless: bool
) -> None:
    issued = await local.sessions.open_for_operator(OPERATOR_KEY, False, "")
    cookie = {"Cookie": f"{COOKIE}={issued.token}", "Content-Type": "text/plain"}
    async with serve_app(make_http_app(local, settings if keyless else locked)) as url:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(
                f"{url.replace('http', 'ws', 1)}/api/v1/documents",
                origin=websockets.Origin(url),
                additional_headers=cookie,
            )
    assert refused.value.response.status_code in (403, 404)


@pytest.mark.parametrize("headers", [EVIL, OTHER_PORT, {"origin": "null"}, {"sec-fetch-site": "cross-site"}])
async def test_another_page_cannot_log_a_browser_in(
    local: LocalEngine, locked: Settings, headers: dict[str, str]
) -> None:
    await local.accounts.register("ada", PASSWORD)
    transport = httpx.ASGITransport(app=make_http_app(local, locked))
    async with httpx.AsyncClient(transport=transport, base_url=OWN, headers=headers) as http:
        refused = await http.post("/api/v1/session", json=LOGIN)
        assert refused.status_code == 403 and "set-cookie" not in refused.headers
        assert (await http.get("/api/v1/session")).status_code == 403


async def test_a_foreign_name_of_this_server_is_refused_with_a_cookie(local: LocalEngine, locked: Settings) -> None:
    """DNS rebinding: the browser believes that it talks to evil.example."""
    issued = await local.sessions.open_for_operator(OPERATOR_KEY, False, "")
    async with open_browser(local, locked, "http://evil.example") as http:
        http.cookies[COOKIE] = issued.token
        assert (await http.get("/api/v1/documents")).status_code == 403


@pytest.mark.parametrize("keyless", [False, True], ids=["session", "local owner"])
@pytest.mark.parametrize(
    ("content_type", "allowed"),
    [("application/json", True), ("application/merge-patch+json", True), ("multipart/form-data; boundary=x", True),
     ("text/plain", False), ("application/x-www-form-urlencoded", False), ("text/plain; x=application/json", False)],
)  # fmt: skip
async def test_a_browser_changes_data_by_json_and_multipart_only(
    local: LocalEngine, locked: Settings, settings: Settings, content_type: str, allowed: bool, keyless: bool
) -> None:
    async with open_browser(local, settings if keyless else locked) as http:
        if not keyless:
            await log_in(http, api_key=OPERATOR_KEY)
        reply = await http.post("/api/v1/verify", content=b"{}", headers={"content-type": content_type})
        assert reply.status_code == (200 if allowed else 415)
    transport = httpx.ASGITransport(app=make_http_app(local, settings))
    async with httpx.AsyncClient(transport=transport, base_url=OWN) as http:
        sent = await http.post("/api/v1/verify", content=b"{}", headers={"content-type": content_type})
        assert sent.status_code == 200, "programs are not affected"


async def test_a_link_from_elsewhere_opens_the_page_and_not_the_api(local: LocalEngine, locked: Settings) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    issued = await local.sessions.open_for_operator(OPERATOR_KEY, False, "")
    transport = httpx.ASGITransport(app=make_http_app(local, locked))
    cookie = {"cookie": f"{COOKIE}={issued.token}"}
    async with httpx.AsyncClient(transport=transport, base_url=OWN, headers={**link, **cookie}) as http:
        assert (await http.get("/docs")).status_code == 200
        assert (await http.get("/api/v1/documents")).status_code == 403
        assert (await http.get("/mcp")).status_code == 403


# -- rate limits --------------------------------------------------------------------------------


def limit_of(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.headers["x-ratelimit-limit"]


async def test_searches_while_typing_have_their_own_allowance_in_a_session_only(
    local: LocalEngine, locked: Settings
) -> None:
    await local.accounts.register("ada", PASSWORD)
    key = {"x-api-key": (await local.accounts.login("ada", PASSWORD)).secret}
    limited = locked.model_copy(update={"query_rate_limit": "3/minute", "typing_rate_limit": "5/minute"})
    typing, asked = {"query": "te", "typing": True}, {"query": "tea"}
    async with open_browser(local, limited) as http:
        await log_in(http)
        codes = [limit_of(await http.post("/api/v1/search", json=typing)) for _ in range(6)]
        assert codes == [(200, "5")] * 5 + [(429, "5")]
        assert limit_of(await http.post("/api/v1/search", json=asked)) == (200, "3")
        by_key = [limit_of(await http.post("/api/v1/search", json=typing, headers=key)) for _ in range(3)]
        assert by_key == [(200, "3"), (200, "3"), (429, "3")], "the account's query allowance, one of which is spent"
        refused = await http.post("/api/v1/search", json=asked)
        assert limit_of(refused) == (429, "3") and 1 <= int(refused.headers["retry-after"]) <= 60


@pytest.mark.parametrize("body", [{"query": "typing"}, {"query": "x", "typing": False}, {"query": "x", "typing": "no"}])
async def test_a_search_without_typing_draws_on_the_query_allowance(
    local: LocalEngine, locked: Settings, body: dict[str, Any]
) -> None:
    await local.accounts.register("ada", PASSWORD)
    async with open_browser(local, locked) as http:
        await log_in(http)
        reply = await http.post("/api/v1/search", json=body)
        assert reply.headers["x-ratelimit-limit"] == "60" and reply.headers["x-ratelimit-remaining"] == "59"
        invalid = await http.post("/api/v1/search", json={"query": 3})
        assert invalid.status_code == 422 and invalid.headers["x-ratelimit-remaining"] == "58"


async def test_documents_added_in_a_session_have_their_own_allowance(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    key = {"x-api-key": (await local.accounts.login("ada", PASSWORD)).secret}
    limited = locked.model_copy(update={"session_upload_rate_limit": "3/minute", "upload_rate_limit": "1/minute"})
    async with open_browser(local, limited) as http:
        await log_in(http)
        files = [{"file": (f"{n}.txt", f"tea number {n}".encode())} for n in range(4)]
        codes = [limit_of(await http.post("/api/v1/jobs", files=file)) for file in files]
        assert codes == [(202, "3")] * 3 + [(429, "3")]
        by_key = [limit_of(await http.post("/api/v1/jobs", json={"note": f"n{n}"}, headers=key)) for n in range(2)]
        assert by_key == [(202, "1"), (429, "1")]
        crawl = await http.post("/api/v1/crawls", json={"url": "http://127.0.0.1:1/"})
        assert crawl.status_code == 429, "a crawl draws on the allowance of keys, which is spent"


async def test_two_hundred_files_of_a_page_that_waits_all_arrive(local: LocalEngine, locked: Settings) -> None:
    """The clock of the limits is moved instead of waiting."""
    await local.accounts.register("ada", PASSWORD)
    time = [1_000_000.0]
    rates = RateLimits.from_settings(locked)
    rates._clock = lambda: time[0]
    rates._storage = rates._fallback = MemoryRateLimitStorage(rates._clock)
    caller = Caller(CallerKind.ACCOUNT, 1, "ada", session="token")
    waits = 0
    for _ in range(200):
        while True:
            try:
                await rates.acquire(rates.table_of(caller), "account:1", RateClass.UPLOAD)
                break
            except RateLimited as error:
                waits += 1
                time[0] += float(str(error.details["retry_after"]))
    assert waits >= 1 and time[0] - 1_000_000.0 <= 120, "200 files take at most two minutes of waiting"


async def test_reading_in_a_session_has_the_allowance_of_typing(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    key = {"x-api-key": (await local.accounts.login("ada", PASSWORD)).secret}
    async with open_browser(local, locked) as http:
        await log_in(http)
        assert (await http.get("/api/v1/documents")).headers["x-ratelimit-limit"] == "600"
        assert (await http.get("/api/v1/documents", headers=key)).headers["x-ratelimit-limit"] == "60"
        changed = await http.post("/api/v1/collections", json={"title": "Teas"})
        assert changed.headers["x-ratelimit-limit"] == "30"


async def test_limits_that_are_off_are_shown_as_none(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    off = locked.model_copy(update={"typing_rate_limit": "off", "session_upload_rate_limit": "2/hour"})
    async with open_browser(local, off) as http:
        assert (await log_in(http))["limits"] == {"typing_per_minute": None, "uploads_per_minute": 0}
        reply = await http.post("/api/v1/search", json={"query": "te", "typing": True})
        assert reply.status_code == 200 and "x-ratelimit-limit" not in reply.headers


# -- a server in front of a remote engine -------------------------------------------------------


async def test_a_server_in_front_of_a_remote_engine_lets_the_engine_judge_sessions(
    local: LocalEngine, locked: Settings
) -> None:
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
    async with serve_app(make_http_app(local, locked)) as url:
        remote = connect(url, OPERATOR_KEY)
        try:
            async with open_browser(cast(Any, remote), locked) as ada, open_browser(cast(Any, remote), locked) as root:
                assert (await ada.get("/api/v1/session")).json()["registration_open"] is True
                assert (await log_in(ada))["username"] == "ada"
                assert (await log_in(root, api_key=OPERATOR_KEY))["caller"] == "operator"
                assert (await ada.post("/api/v1/session", json={**LOGIN, "password": "wrong"})).status_code == 401
                assert (await ada.get("/api/v1/user")).json()["username"] == "ada"
                added = await ada.post("/api/v1/jobs", files={"file": ("tea.txt", b"Ada's tea")})
                assert added.status_code == 202
                assert (await root.get("/api/v1/jobs")).json()["total"] == 0, "the operator acts as the owner"
                assert (await ada.get("/api/v1/jobs")).json()["total"] == 1
                typed = await ada.post("/api/v1/search", json={"query": "te", "typing": True})
                assert (typed.status_code, typed.headers["x-ratelimit-limit"]) == (200, "600")
                (listed,) = (await ada.get("/api/v1/sessions")).json()["sessions"]
                assert listed["current"] is True and listed["user_agent"] == "Test Browser 1.0"
                await local.sessions.revoke_of("ada", listed["id"])
                assert (await ada.get("/api/v1/jobs")).status_code == 401, "the engine has revoked it"
                assert (await root.delete("/api/v1/session")).status_code == 204
                assert (await root.get("/api/v1/jobs")).status_code == 401
                assert await local.sessions.list_own() == []
        finally:
            await remote.close()


async def test_the_account_of_a_key_is_named_by_the_remote_engine(local: LocalEngine, locked: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    key = {"x-api-key": (await local.accounts.login("ada", PASSWORD)).secret}
    async with serve_app(make_http_app(local, locked)) as url:
        remote = connect(url, OPERATOR_KEY)
        try:
            async with open_browser(cast(Any, remote), locked) as http:
                body = (await http.get("/api/v1/session", headers=key)).json()
                assert (body["caller"], body["username"]) == ("account", "ada")
        finally:
            await remote.close()


async def test_only_the_operator_may_name_a_session(local: LocalEngine, locked: Settings) -> None:
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
    token = (await local.sessions.open_by_password("ada", PASSWORD, False, "")).token
    bob = (await local.accounts.login("bob", PASSWORD)).secret
    named = {"x-knowledge-session": token}
    async with open_browser(local, locked) as http:
        operator = await http.get("/api/v1/user", headers={**named, "x-api-key": OPERATOR_KEY})
        assert operator.json()["username"] == "ada"
        assert (await http.get("/api/v1/user", headers={**named, "x-api-key": bob})).json()["username"] == "bob"
        assert (await http.get("/api/v1/user", headers=named)).status_code == 401
        await local.sessions.end(token)
        ended = await http.get("/api/v1/user", headers={**named, "x-api-key": OPERATOR_KEY})
        assert (ended.status_code, ended.json()["error"]["code"]) == (401, "session_ended")


async def test_the_leader_of_a_data_folder_accepts_sessions_from_other_processes(
    local: LocalEngine, settings: Settings
) -> None:
    await local.accounts.register("ada", PASSWORD)
    async with serve_app(make_shared_app(local, settings, "token-of-engine-json")) as url:
        remote = connect(url, "token-of-engine-json")
        try:
            issued = await remote.sessions.open_by_password("ada", PASSWORD, False, "")
            session = remote.as_caller(issued.caller)
            assert (await session.accounts.me()).username == "ada"
            await session.sessions.revoke(issued.session.id)
            with pytest.raises(SessionEnded):
                await session.accounts.me()
        finally:
            await remote.close()


# -- a real browser -----------------------------------------------------------------------------

FOREIGN_PAGE = """<!doctype html><title>Foreign</title><body></body>"""
ATTACK = """async (url) => {
    const tried = {};
    const call = async (name, path, options) => {
        try { tried[name] = (await fetch(url + path, {credentials: "include", ...options})).type; }
        catch (error) { tried[name] = error.name; }
    };
    await call("read", "/api/v1/documents", {});
    await call("read without CORS", "/api/v1/documents", {mode: "no-cors"});
    await call("change", "/api/v1/collections",
               {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"}, body: '{"title": "Evil"}'});
    tried.picture = await new Promise(resolve => {
        const image = new Image();
        image.onload = () => resolve("loaded"); image.onerror = () => resolve("refused");
        image.src = url + "/api/v1/backup";
    });
    return tried;
}"""


@pytest.mark.skipif(BROWSER is None, reason="No Chromium is installed on this machine.")
async def test_in_a_browser_our_page_acts_by_cookie_and_a_page_of_another_port_does_not(
    local: LocalEngine, locked: Settings
) -> None:
    await local.accounts.register("ada", PASSWORD)
    seen: list[tuple[str, int]] = []
    app = make_http_app(local, locked)

    async def record(scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.append((scope["path"], message["status"]))
            await send(message)

        await app(scope, receive, note if scope["type"] == "http" else send)

    foreign = Starlette(routes=[Route("/", lambda _: HTMLResponse(FOREIGN_PAGE))])
    async with serve_app(record) as url, serve_app(foreign) as other, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(f"{url}/docs")
        status = """async ([method, path, body]) => (await fetch(path, {
            method, headers: body ? {"content-type": "application/json"} : {}, body: body && JSON.stringify(body),
        })).status"""
        assert await page.evaluate(status, ["GET", "/api/v1/documents", None]) == 401
        assert await page.evaluate(status, ["POST", "/api/v1/session", LOGIN]) == 200
        assert await page.evaluate("document.cookie") == "", "scripts cannot read it"
        assert await page.evaluate(status, ["GET", "/api/v1/documents", None]) == 200
        assert await page.evaluate(status, ["POST", "/api/v1/collections", {"title": "Teas"}]) == 201
        assert await page.evaluate(status, ["POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}]) == 401
        stranger = await context.new_page()
        await stranger.goto(other)
        seen.clear()
        tried = await stranger.evaluate(ATTACK, url)
        assert tried["read"] == "TypeError" and tried["picture"] == "refused"
        api = [(path, code) for path, code in seen if path.startswith("/api/")]
        assert len(api) >= 4 and {code for _, code in api} == {403}, api
        assert await page.evaluate(status, ["DELETE", "/api/v1/session", None]) == 204
        assert await page.evaluate(status, ["GET", "/api/v1/documents", None]) == 401
        assert await context.cookies() == []
        await browser.close()
    ada = await open_engine_of_ada(local)
    assert [one.title for one in (await ada.collections()).items if one.title != "documents"] == ["Teas"]


async def open_engine_of_ada(local: LocalEngine) -> Engine:
    caller = await local.accounts.find_by_key((await local.accounts.login("ada", PASSWORD)).secret)
    assert caller is not None
    return local.as_caller(caller)
