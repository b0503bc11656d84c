"""Only own and listed web pages may call from a browser (CSRF, DNS rebinding); other clients are not affected."""

from __future__ import annotations

import httpx
import pytest
import websockets
from pydantic import SecretStr
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.guard import wrap_in_guard
from tests.contracts.app_server import serve_app

OWN, LISTED = "http://127.0.0.1:8000", "https://page.example"


async def answer_caller(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with its caller."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await JSONResponse({"kind": caller_of(scope).kind})(scope, receive, send)


def guard(**given: object) -> ASGIApp:
    return wrap_in_guard(answer_caller, Settings.model_validate({"cors_origins": LISTED, **given}))


async def is_let_in(
    app: ASGIApp, way: tuple[str, str], headers: dict[str, str], client: str = "127.0.0.1", host: str = "127.0.0.1:8000"
) -> bool:
    """Whether a request with these headers reaches the application; the method WS is a WebSocket."""
    method, path = way
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect" if method == "WS" else "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in {"host": host, **headers}.items()]
    scope = {
        "type": "websocket" if method == "WS" else "http", "scheme": "ws" if method == "WS" else "http", "path": path,
        "method": method, "headers": raw, "query_string": b"", "client": (client, 5000), "server": ("127.0.0.1", 8000),
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["type"] == "websocket.accept" or sent[0].get("status") == 200


WAYS = {
    "REST GET": ("GET", "/api/v1/documents"),
    "REST POST": ("POST", "/api/v1/search"),
    "login": ("POST", "/api/v1/user/login"),
    "MCP POST": ("POST", "/mcp"),
    "MCP GET": ("GET", "/mcp/kb"),
    "WebSocket": ("WS", "/mcp"),
    "picture": ("GET", "/api/v1/backup"),
}
REQUESTS: dict[str, tuple[dict[str, str], bool]] = {
    "a program that sends neither header": ({}, True),
    "an address that the user typed": ({"sec-fetch-site": "none"}, True),
    "our own page": ({"origin": OWN, "sec-fetch-site": "same-origin"}, True),
    "our own page, by GET": ({"sec-fetch-site": "same-origin"}, True),
    "our own page in an old browser": ({"origin": OWN}, True),
    "a listed page": ({"origin": LISTED, "sec-fetch-site": "cross-site"}, True),
    "a listed page in an old browser": ({"origin": LISTED}, True),
    "another site without an Origin": ({"sec-fetch-site": "cross-site"}, False),
    "another port without an Origin": ({"sec-fetch-site": "same-site"}, False),
    "a value that nobody knows": ({"sec-fetch-site": "nearby"}, False),
    "another site with our Origin": ({"origin": OWN, "sec-fetch-site": "cross-site"}, False),
    "another port": ({"origin": "http://127.0.0.1:3000"}, False),
    "another port, and the browser says so": (
        {"origin": "http://127.0.0.1:3000", "sec-fetch-site": "same-site"},
        False,
    ),
    "another name of this machine": ({"origin": "http://localhost:8000"}, False),
    "another scheme": ({"origin": "https://127.0.0.1:8000"}, False),
    "our name without the port": ({"origin": "http://127.0.0.1"}, False),
    "another site": ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, False),
    "a name that contains a listed one": ({"origin": "https://page.example.evil.example"}, False),
    "another scheme of a listed page": ({"origin": "http://page.example"}, False),
    "a sandboxed frame": ({"origin": "null"}, False),
    "an extension": ({"origin": "chrome-extension://abcdef"}, False),
    "an empty Origin": ({"origin": ""}, False),
}


@pytest.mark.parametrize(("headers", "expected"), REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_only_own_and_listed_pages_may_call(
    way: tuple[str, str], headers: dict[str, str], expected: bool
) -> None:
    assert await is_let_in(guard(), way, headers) is expected


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_key_does_not_allow_another_site(way: tuple[str, str]) -> None:
    locked = guard(api_key=SecretStr("rest-key"), mcp_api_key=SecretStr("rest-key"))
    key = {"authorization": "Bearer rest-key"}
    assert await is_let_in(locked, way, {**key, "sec-fetch-site": "same-origin", "origin": OWN})
    assert not await is_let_in(locked, way, {**key, "sec-fetch-site": "cross-site"})
    assert not await is_let_in(locked, way, {**key, "sec-fetch-site": "cross-site", "origin": "https://evil.example"})


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_wildcard_origin_does_not_include_a_sandboxed_frame(way: tuple[str, str]) -> None:
    assert await is_let_in(guard(cors_origins="*"), way, {"origin": "https://any.example"})
    assert not await is_let_in(guard(cors_origins="*"), way, {"origin": "null"})


async def test_a_listed_origin_may_have_capitals_and_a_trailing_slash() -> None:
    app = guard(cors_origins="HTTPS://Page.Example/")
    assert await is_let_in(app, WAYS["REST GET"], {"origin": LISTED, "sec-fetch-site": "cross-site"})


async def test_the_default_port_may_be_omitted() -> None:
    assert await is_let_in(guard(), WAYS["MCP POST"], {"origin": "http://localhost"}, host="localhost:80")
    assert await is_let_in(guard(), WAYS["MCP POST"], {"origin": "http://LOCALHOST:80"}, host="localhost")


@pytest.mark.parametrize(
    "host",
    ["evil.example@localhost", "localhost#evil.example", "localhost/evil.example", "localhost?evil", "localhost:x",
     "localhost:1:2", "local host", "localhost\\evil", "[::1", "::1", "[::1]evil", ":8000", "", "[::1%25evil]"],
)  # fmt: skip
@pytest.mark.parametrize("way", [*WAYS.values(), ("GET", "/docs")], ids=[*WAYS, "page"])
async def test_a_malformed_host_is_refused(way: tuple[str, str], host: str) -> None:
    assert not await is_let_in(guard(), way, {}, host=host)


async def test_two_host_headers_are_refused() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "scheme": "http", "path": "/api/v1/status", "method": "GET", "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"host", b"evil.example")], "client": ("127.0.0.1", 5), "server": None,
    }  # fmt: skip
    await guard()(scope, receive, send)
    assert sent[0]["status"] == 403


BEHIND_TLS: dict[str, object] = {
    "trusted_proxies": "127.0.0.1, 10.0.0.0/8", "mcp_allowed_hosts": "kb.example", "mcp_api_key": SecretStr("key"),
    "api_key": SecretStr("key"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("client", "host", "forwarded", "expected"),
    [
        ("127.0.0.1", "kb.example", {"x-forwarded-proto": "https"}, True),
        ("127.0.0.1", "127.0.0.1:8000", {"x-forwarded-proto": "https", "x-forwarded-host": "kb.example"}, True),
        ("10.0.0.5", "engine:8000", {"x-forwarded-proto": "https", "x-forwarded-host": "kb.example"}, True),
        ("127.0.0.1", "kb.example", {}, False),
        ("127.0.0.1", "kb.example", {"x-forwarded-proto": "http"}, False),
        ("192.0.2.7", "kb.example", {"x-forwarded-proto": "https"}, False),
    ],
)
async def test_a_trusted_proxy_forwards_the_scheme_and_host_of_the_browser(
    client: str, host: str, forwarded: dict[str, str], expected: bool
) -> None:
    headers = {"origin": "https://kb.example", "x-api-key": "key", **forwarded}
    assert await is_let_in(guard(**BEHIND_TLS), WAYS["MCP POST"], headers, client, host) is expected


async def test_a_foreign_host_forwarded_by_a_local_proxy_is_refused() -> None:
    headers = {"x-api-key": "key", "x-forwarded-host": "evil.example", "origin": "http://evil.example"}
    assert not await is_let_in(guard(**BEHIND_TLS), WAYS["MCP POST"], headers)


@pytest.mark.parametrize("path", ["/api/v1/search", "/mcp", "/api/v1/mcp/"])
async def test_a_cors_preflight_of_a_listed_page_allows_every_client_header(path: str) -> None:
    wanted = "authorization, content-type, x-api-key, mcp-session-id, mcp-protocol-version, last-event-id, mcp-method"
    asked = {
        "origin": LISTED, "access-control-request-method": "POST", "access-control-request-headers": wanted,
        "sec-fetch-site": "cross-site",
    }  # fmt: skip
    locked = guard(api_key=SecretStr("key"), mcp_api_key=SecretStr("key"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=locked), base_url=OWN) as http:
        allowed = await http.options(path, headers=asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == LISTED
        assert "POST" in allowed.headers["access-control-allow-methods"]
        granted = {name.strip().lower() for name in allowed.headers["access-control-allow-headers"].split(",")}
        assert granted >= {name.strip() for name in wanted.split(",")}
        refused = await http.options(path, headers={**asked, "origin": "https://evil.example"})
        assert refused.is_error and "access-control-allow-origin" not in refused.headers
        missing = await http.post(path, headers={"origin": LISTED, "sec-fetch-site": "cross-site"})
        assert missing.status_code == 401
        assert "Mcp-Session-Id" in missing.headers["access-control-expose-headers"], "a page can read its refusal"


async def test_a_foreign_page_cannot_use_up_the_rate_limit_of_an_address(
    local: LocalEngine, settings: Settings
) -> None:
    locked = settings.model_copy(update={"api_key": SecretStr("key"), "auth_rate_limit": "1/day"})
    foreign = [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=make_http_app(local, locked)), base_url=OWN) as http:
        for headers in foreign * 2:
            assert (await http.get("/api/v1/status", headers=headers)).status_code == 403
        assert (await http.get("/api/v1/status")).status_code == 401, "and not 429"


async def test_the_page_with_the_reference_works_in_its_own_origin(local: LocalEngine, settings: Settings) -> None:
    async with serve_app(make_http_app(local, settings)) as url, httpx.AsyncClient(base_url=url) as http:
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert (await http.get("/docs", headers=link)).status_code == 200, "a link from elsewhere may open the page"
        assert (await http.get("/openapi.json", headers={"sec-fetch-site": "same-origin"})).status_code == 200
        own = {"sec-fetch-site": "same-origin", "origin": url}
        assert (await http.post("/api/v1/search", json={"query": "tea"}, headers=own)).status_code == 200
        picture = await http.get("/api/v1/backup", headers={"sec-fetch-site": "cross-site", "sec-fetch-dest": "image"})
        assert picture.status_code == 403
        address = f"{url.replace('http', 'ws', 1)}/mcp"
        with pytest.raises(websockets.InvalidStatus):
            await websockets.connect(address, origin=websockets.Origin("http://127.0.0.1:3000"))
        async with websockets.connect(address, origin=websockets.Origin(url)):
            pass
