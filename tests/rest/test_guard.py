"""The guard: keys, host names, foreign web pages, and public addresses."""

from __future__ import annotations

import logging

import httpx
import pytest
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.config import Settings
from knowledge.errors import Forbidden
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.auth import Authenticator, Surface, caller_of, check_binding
from knowledge.surfaces.http.guard import surface_of, wrap_in_guard


async def answer_caller(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with its caller."""
    caller = caller_of(Request(scope).scope)
    await JSONResponse({"kind": caller.kind, "owner": caller.owner})(scope, receive, send)


def settings(**given: object) -> Settings:
    return Settings.model_validate(given)


async def get(
    app: ASGIApp, url: str = "http://127.0.0.1:8000/api/v1/status", client: str = "127.0.0.1", **headers: str
) -> httpx.Response:
    transport = httpx.ASGITransport(app=app, client=(client, 5000))
    async with httpx.AsyncClient(transport=transport) as http:
        return await http.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()})


LOCKED = {"api_key": SecretStr("rest-key"), "mcp_api_key": SecretStr("mcp-key")}


@pytest.mark.parametrize("headers", [{"authorization": "Bearer rest-key"}, {"x_api_key": "rest-key"}])
async def test_rest_accepts_the_key_in_either_header(headers: dict[str, str]) -> None:
    reply = await get(wrap_in_guard(answer_caller, settings(**LOCKED)), **headers)
    assert reply.json() == {"kind": "key", "owner": 0}


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer mcp-key"}, {"authorization": "Basic rest-key"}, {"x_api_key": "rest-key2"}],
)
async def test_a_wrong_or_missing_key_is_refused(headers: dict[str, str]) -> None:
    reply = await get(wrap_in_guard(answer_caller, settings(**LOCKED)), **headers)
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    code = "invalid_key" if headers and "Basic" not in headers.get("authorization", "") else "missing_key"
    assert reply.headers["x-mcp-error-code"] == reply.json()["error"]["code"] == code
    assert "Bearer" in reply.json()["error"]["hint"]


async def test_a_key_with_non_ascii_letters_is_wrong() -> None:
    transport = httpx.ASGITransport(app=wrap_in_guard(answer_caller, settings(**LOCKED)))
    async with httpx.AsyncClient(transport=transport) as http:
        reply = await http.get("http://127.0.0.1/api/v1/status", headers={b"x-api-key": "ключ".encode()})
    assert reply.status_code == 401


@pytest.mark.parametrize("path", ["/health", "/api/v1/health", "/ready", "/api/v1/ready"])
async def test_health_needs_no_key_and_no_known_host(path: str) -> None:
    assert (await get(wrap_in_guard(answer_caller, settings(**LOCKED)), f"http://lb.example{path}")).status_code == 200


async def test_each_surface_has_its_own_key() -> None:
    app = wrap_in_guard(answer_caller, settings(**LOCKED))
    assert (await get(app, "http://127.0.0.1/mcp", authorization="Bearer mcp-key")).status_code == 200
    assert (await get(app, "http://127.0.0.1/mcp", authorization="Bearer rest-key")).status_code == 401
    assert (await get(app, "http://127.0.0.1/docs")).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "127.1.2.3"])
async def test_a_server_without_a_key_answers_on_this_machine(host: str) -> None:
    reply = await get(wrap_in_guard(answer_caller, settings()), f"http://{host}/api/v1/status")
    assert reply.json() == {"kind": "local", "owner": 0}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"])
@pytest.mark.parametrize("path", ["/api/v1/status", "/mcp", "/docs"])
async def test_dns_rebinding_is_refused(host: str, path: str) -> None:
    reply = await get(wrap_in_guard(answer_caller, settings()), f"http://{host}{path}")
    assert reply.status_code == 403
    assert "KB_MCP_ALLOWED_HOSTS" in reply.text


async def test_host_names_can_be_allowed() -> None:
    app = wrap_in_guard(answer_caller, settings(mcp_allowed_hosts="kb.example, Engine:8000"))
    assert (await get(app, "http://kb.example/mcp")).status_code == 200
    assert (await get(app, "http://engine:8000/mcp")).status_code == 200
    assert (await get(app, "http://other.example/mcp")).status_code == 403


async def test_rest_with_a_valid_key_is_exempt_and_mcp_is_not() -> None:
    app = wrap_in_guard(answer_caller, settings(**LOCKED))
    far = await get(app, "http://engine:8000/api/v1/status", authorization="Bearer rest-key", origin="http://x.example")
    assert far.status_code == 200
    assert (await get(app, "http://engine:8000/mcp", authorization="Bearer mcp-key")).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost.evil.example", "file://"])
async def test_a_foreign_page_may_not_call(origin: str) -> None:
    reply = await get(wrap_in_guard(answer_caller, settings()), origin=origin)
    assert reply.status_code == 403
    assert "KNOWLEDGE_CORS_ORIGINS" in reply.json()["error"]["hint"]


async def test_only_the_servers_own_local_page_may_call() -> None:
    assert (await get(wrap_in_guard(answer_caller, settings()), origin="http://127.0.0.1:8000")).status_code == 200
    assert (await get(wrap_in_guard(answer_caller, settings()), origin="http://localhost:5173")).status_code == 403


async def test_an_allowed_origin_gets_cors_headers() -> None:
    app = wrap_in_guard(answer_caller, settings(cors_origins="https://page.example"))
    reply = await get(app, origin="https://page.example")
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == "https://page.example"
    assert "access-control-allow-origin" not in (await get(app, origin="https://other.example")).headers


async def test_a_remote_proxy_may_choose_the_host_name() -> None:
    app = wrap_in_guard(answer_caller, settings(trusted_proxies="10.0.0.0/8, 127.0.0.1", **LOCKED))
    address, key = "http://kb.example/mcp", "mcp-key"
    assert (await get(app, address, client="10.1.2.3", x_api_key=key)).status_code == 200
    assert (await get(app, address, client="11.1.2.3", x_api_key=key)).status_code == 403
    # On this machine the request could come from a browser instead of the proxy.
    assert (await get(app, address, client="127.0.0.1", x_api_key=key)).status_code == 403


# -- the local owner without a key --------------------------------------------------------------

FORWARDED = [
    "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-anything", "forwarded", "via",
    "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "cf-ray", "fly-client-ip",
]  # fmt: skip
SIDES = ["/api/v1/status", "/mcp", "/mcp/kb"]


@pytest.mark.parametrize("header", FORWARDED)
@pytest.mark.parametrize("path", SIDES)
async def test_a_forwarded_request_is_not_the_local_owner(path: str, header: str) -> None:
    app, address = wrap_in_guard(answer_caller, settings()), f"http://127.0.0.1:8000{path}"
    assert (await get(app, address)).json() == {"kind": "local", "owner": 0}
    for key in ({}, {"x_api_key": "anything"}):
        refused = await get(app, address, **{header: "8.8.8.8"}, **key)
        assert refused.status_code == 401
    assert "proxy" in (await get(app, "http://127.0.0.1:8000/api/v1/status", via="1.1 x")).json()["error"]["hint"]


@pytest.mark.parametrize("path", SIDES)
async def test_with_a_trusted_proxy_every_caller_needs_a_key(path: str) -> None:
    proxied = settings(trusted_proxies="127.0.0.1")
    app, address = (
        wrap_in_guard(answer_caller, proxied, Authenticator.from_settings(proxied, account_of)),
        f"http://127.0.0.1:8000{path}",
    )
    assert (await get(app, address)).status_code == 401
    assert (await get(app, address, x_forwarded_for="8.8.8.8")).status_code == 401
    assert (await get(app, address, x_forwarded_for="8.8.8.8", x_api_key="kn_hers")).json()["owner"] == 7


@pytest.mark.parametrize("client", ["192.168.1.7", "203.0.113.9", "::ffff:192.168.1.7"])
@pytest.mark.parametrize("path", SIDES)
async def test_another_machine_is_not_the_local_owner_of_a_loopback_server(path: str, client: str) -> None:
    reply = await get(wrap_in_guard(answer_caller, settings()), f"http://127.0.0.1:8000{path}", client=client)
    assert reply.status_code == 401


async def test_a_key_for_one_surface_does_not_change_the_other() -> None:
    rest, mcp = "http://127.0.0.1:8000/api/v1/status", "http://127.0.0.1:8000/mcp"
    only_rest = wrap_in_guard(answer_caller, settings(api_key=SecretStr("rest-key")))
    assert [(await get(only_rest, url)).status_code for url in (rest, mcp)] == [401, 200]
    only_mcp = wrap_in_guard(answer_caller, settings(mcp_api_key=SecretStr("mcp-key")))
    assert [(await get(only_mcp, url)).status_code for url in (rest, mcp)] == [200, 401]


async def test_allow_open_also_holds_behind_a_proxy() -> None:
    app = wrap_in_guard(
        answer_caller, settings(allow_open=True, trusted_proxies="127.0.0.1", mcp_allowed_hosts="kb.example")
    )
    reply = await get(app, "http://kb.example/mcp", x_forwarded_for="8.8.8.8")
    assert reply.json() == {"kind": "local", "owner": 0}


async def account_of(key: str) -> Caller | None:
    return Caller(CallerKind.ACCOUNT, 7, "ada", key) if key == "kn_hers" else None


LOCKED_KEYS = Authenticator(("rest-key",), ("mcp-key",), account_of)


async def test_an_accounts_key_works_on_every_surface() -> None:
    app = wrap_in_guard(answer_caller, settings(**LOCKED), LOCKED_KEYS)
    for path in ("/api/v1/status", "/mcp", "/api/v1/mcp/"):
        reply = await get(app, f"http://127.0.0.1{path}", authorization="Bearer kn_hers")
        assert reply.json() == {"kind": "account", "owner": 7}


@pytest.mark.parametrize(
    "keys", [LOCKED_KEYS, Authenticator(find_account=account_of), Authenticator()], ids=["locked", "open", "alone"]
)
@pytest.mark.parametrize("path", ["/api/v1/status", "/mcp", "/mcp/kb", "/api/v1/mcp/", "/api/v1/mcp/query/stream", "/"])
async def test_an_accounts_key_that_is_not_valid_never_becomes_the_local_owner(keys: Authenticator, path: str) -> None:
    app = wrap_in_guard(answer_caller, settings(), keys)
    for key in ("kn_nobodys", "kn_", "kn_hers2"):
        assert (await get(app, f"http://127.0.0.1{path}", x_api_key=key)).status_code == 401


async def test_the_managers_endpoints_accept_only_keys_of_accounts() -> None:
    app = wrap_in_guard(answer_caller, settings(**LOCKED), LOCKED_KEYS)
    for path in ("/api/v1/mcp", "/api/v1/mcp/", "/api/v1/mcp/query/stream"):
        codes = [
            (await get(app, f"http://127.0.0.1{path}", **headers)).headers["x-mcp-error-code"]
            for headers in ({}, {"x_api_key": "mcp-key"}, {"x_api_key": "rest-key"})
        ]
        assert codes == ["auth.missing_api_key", "auth.invalid_api_key", "auth.invalid_api_key"]


@pytest.mark.parametrize("given", [{}, LOCKED, {"host": "0.0.0.0"}])
@pytest.mark.parametrize("path", ["register", "login"])
async def test_registering_and_logging_in_need_no_key(path: str, given: dict[str, object]) -> None:
    reply = await get(wrap_in_guard(answer_caller, settings(**given)), f"http://127.0.0.1/api/v1/user/{path}")
    assert reply.status_code == 200


async def test_on_a_public_address_a_caller_without_a_key_is_refused() -> None:
    public = settings(host="0.0.0.0", api_key=SecretStr("rest-key"))
    app = wrap_in_guard(answer_caller, public, Authenticator.from_settings(public, account_of))
    assert (await get(app, "http://127.0.0.1/mcp")).status_code == 401
    assert (await get(app, "http://127.0.0.1/mcp", x_api_key="kn_hers")).json()["owner"] == 7
    opened = settings(host="0.0.0.0", allow_open=True)
    assert (await get(wrap_in_guard(answer_caller, opened), "http://127.0.0.1/mcp")).json() == {
        "kind": "local",
        "owner": 0,
    }


async def test_a_websocket_from_a_foreign_page_is_closed_before_it_opens() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/mcp", "headers": [(b"host", b"evil.example")], "client": None}
    await wrap_in_guard(answer_caller, settings())(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_this_machine_may_be_served_without_keys(host: str, caplog: pytest.LogCaptureFixture) -> None:
    check_binding(settings(host=host))
    check_binding(settings(host=host, allow_open=True))
    assert caplog.records == [], "nobody else is let in, so there is nothing to warn of"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "KB_API_KEY and KB_MCP_API_KEY"),
        ({"api_key": SecretStr("x")}, "KB_MCP_API_KEY"),
        ({"mcp_api_key": SecretStr("x")}, "KB_API_KEY"),
    ],
)
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "kb.example"])
def test_listening_on_a_public_address_needs_keys(host: str, given: dict[str, object], missing: str) -> None:
    with pytest.raises(Forbidden, match=missing) as raised:
        check_binding(settings(host=host, **given))
    assert f"Set {missing}" in raised.value.hint


@pytest.mark.parametrize(
    ("given", "sides", "accounts", "missing"),
    [
        (LOCKED, [Surface.REST, Surface.MCP], False, None),
        ({"mcp_api_key": SecretStr("x")}, [Surface.MCP], False, None),
        ({"mcp_api_key": SecretStr("x")}, [Surface.REST], False, "KB_API_KEY"),
        ({"api_key": SecretStr("x")}, [Surface.REST], False, None),
        ({"api_key": SecretStr("x")}, [Surface.MCP], False, "KB_MCP_API_KEY"),
        ({"api_key": SecretStr("x")}, [Surface.REST, Surface.MCP], True, None),
        ({}, [Surface.REST, Surface.MCP], True, "KB_API_KEY"),
    ],
)
def test_listening_on_a_public_address_works_with_a_key_for_each_surface(
    given: dict[str, object],
    sides: list[Surface],
    accounts: bool,
    missing: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    public = settings(host="0.0.0.0", **given)
    if missing is None:
        check_binding(public, sides, accounts=accounts)
        assert caplog.records == [], "there is a key, so there is nothing to warn of"
    else:
        with pytest.raises(Forbidden, match=missing):
            check_binding(public, sides, accounts=accounts)


def test_an_operator_who_allows_open_access_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_binding(settings(host="0.0.0.0", allow_open=True))
    assert "anyone who reaches this address" in caplog.text


def test_a_path_belongs_to_one_surface() -> None:
    sides = {path: surface_of(path) for path in ("/mcp", "/mcp/kb", "/api/v1/mcp/", "/api/v1/search", "/", "/mcpx")}
    assert list(sides.values()) == [Surface.MCP, Surface.MCP, Surface.MANAGER, Surface.REST, Surface.PAGE, Surface.PAGE]
    for path in ("/sage/mcp", "/sage/mcp/", "/kb/mcp/readonly", "/api/mcp", "/kb\n/mcp", "/kb/mcp\n", "/sse", "/sse/"):
        assert surface_of(path) is Surface.MCP, path
    for path in ("/mcpx/y", "/kb/mcpx", "/a/b/mcp", "//mcp", "/ssex"):
        assert surface_of(path) is Surface.PAGE, path


async def test_a_line_break_after_the_path_of_mcp_does_not_make_it_a_page() -> None:
    sides = {path: surface_of(path) for path in ("/mcp\n", "/api/v1/mcp\n")}
    assert sides == {"/mcp\n": Surface.MCP, "/api/v1/mcp\n": Surface.MANAGER}
    for path in ("mcp%0A", "api/v1/mcp%0A"):  # Starlette's routes match it, because `$` matches before a line break
        reply = await get(wrap_in_guard(answer_caller, settings(**LOCKED)), f"http://127.0.0.1:8000/{path}")
        assert reply.status_code == 401
