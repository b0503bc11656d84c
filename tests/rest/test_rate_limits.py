"""Rate limits over REST, over MCP on every transport, and for failed authentication."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.errors import AccessDenied
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.auth import Authenticator
from knowledge.surfaces.http.open_engine import make_shared_app
from knowledge.surfaces.http.rate_limit_storage import FILENAME
from knowledge.surfaces.http.rate_limits import RateLimits, allowance_key_of
from knowledge.surfaces.http.server import wrap_in_guard_and_log
from knowledge.surfaces.mcp.call_limits import make_call_limits
from knowledge.surfaces.mcp.routes import make_routes
from knowledge.surfaces.mcp.surface import McpSurface
from knowledge.surfaces.rest import make_rest_app
from knowledge.surfaces.rest.framework.middleware import PREFIX, RATES, rate_of
from knowledge.toolsets import make_registry
from knowledge.toolsets.base import RateClass, Registry, Resource, ResourceTemplate, ResourceText, Toolset
from tests.contracts.app_server import serve_app
from tests.support.accounts import PASSWORD

ANN, BOB = {"authorization": "Bearer kn_ann"}, {"authorization": "Bearer kn_bob"}
OPERATOR = {"authorization": "Bearer operator"}


async def account_of(key: str) -> Caller | None:
    owner = {"kn_ann": 1, "kn_bob": 2}.get(key)
    return None if owner is None else Caller(CallerKind.ACCOUNT, owner=owner, key=key)


def keys(*, locked: bool = False) -> Authenticator:
    operators = ("operator",) if locked else ()
    return Authenticator(operators, operators, account_of)


def rest(local: LocalEngine, settings: Settings, *, locked: bool = False, **given: object) -> ASGIApp:
    changed = settings.model_copy(update=given)
    rates = RateLimits.from_settings(changed)
    return wrap_in_guard_and_log(
        make_rest_app(local, engine_for=lambda _: local, rates=rates), changed, keys(locked=locked), rates
    )


def browser(app: ASGIApp, client: str = "127.0.0.1") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, client=(client, 5000)), base_url="http://127.0.0.1")


def remaining_of(reply: httpx.Response) -> int:
    return int(reply.headers["x-ratelimit-remaining"])


# -- REST ---------------------------------------------------------------------------------------


async def test_each_account_has_its_own_rate_limit_and_gets_the_headers(local: LocalEngine, settings: Settings) -> None:
    async with browser(rest(local, settings, query_rate_limit="2/minute")) as http:
        question = {"query": "tea"}
        assert [remaining_of(await http.post("/api/v1/search", json=question, headers=ANN)) for _ in range(2)] == [1, 0]
        refused = await http.post("/api/v1/search", json=question, headers=ANN)
        assert refused.status_code == 429
        assert refused.json()["error"]["message"] == "Rate limit exceeded. Please slow down and try again."
        assert refused.headers["x-mcp-error-code"] == "rate_limited"
        assert refused.headers["x-ratelimit-limit"] == "2" and remaining_of(refused) == 0
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert (await http.post("/api/v1/search", json=question, headers=BOB)).status_code == 200


async def test_a_refused_call_counts_against_the_rate_limit(local: LocalEngine, settings: Settings) -> None:
    async with browser(rest(local, settings)) as http:
        assert remaining_of(await http.get("/api/v1/documents/99", headers=ANN)) == 59
        assert remaining_of(await http.get("/api/v1/documents?nonsense=1", headers=ANN)) == 58
        assert remaining_of(await http.post("/api/v1/search", content=b"{", headers=ANN)) == 59


async def test_the_local_owner_and_the_operators_key_have_no_limit(local: LocalEngine, settings: Settings) -> None:
    limited = settings.model_copy(update={"query_rate_limit": "1/day", "management_rate_limit": "1/day"})
    async with browser(rest(local, limited)) as http:
        replies = [await http.get("/api/v1/documents") for _ in range(3)]
    async with browser(rest(local, limited, locked=True)) as http:
        replies += [await http.get("/api/v1/documents", headers=OPERATOR) for _ in range(3)]
    assert {reply.status_code for reply in replies} == {200}
    assert not any("x-ratelimit-limit" in reply.headers for reply in replies)


async def test_health_has_no_rate_limit(local: LocalEngine, settings: Settings) -> None:
    async with browser(rest(local, settings)) as http:
        assert "x-ratelimit-limit" not in (await http.get("/api/v1/health", headers=ANN)).headers


async def test_adding_changing_and_reading_are_counted_apart(local: LocalEngine, settings: Settings) -> None:
    async with browser(rest(local, settings)) as http:
        added = await http.post("/api/v1/jobs", json={"note": "tea at noon"}, headers=ANN)
        changed = await http.post("/api/v1/collections", json={"title": "Teas"}, headers=ANN)
        read = await http.get("/api/v1/collections", headers=ANN)
    assert [reply.headers["x-ratelimit-limit"] for reply in (added, changed, read)] == ["10", "30", "60"]


def test_every_rest_route_has_its_rate_class(local: LocalEngine) -> None:
    found = {
        (method.upper(), path.removeprefix(PREFIX)): rate_of(method.upper(), path)
        for path, methods in make_rest_app(local).openapi()["paths"].items()
        for method in methods
    }
    assert [call for call, rate in found.items() if rate is None] == [("GET", "/health"), ("GET", "/ready")]
    assert found["POST", "/search"] is RateClass.QUERY
    assert found["POST", "/jobs"] is found["POST", "/crawls"] is RateClass.UPLOAD
    assert found["GET", "/documents/{id}/file"] is RateClass.RESOURCE
    assert found["GET", "/status"] is RateClass.LIST
    assert found["DELETE", "/documents/{id}"] is RateClass.MANAGEMENT
    assert RATES["POST", "/user/register"] is RATES["POST", "/user/login"] is RateClass.AUTHENTICATION


# -- failed authentication ----------------------------------------------------------------------


async def test_guessing_keys_is_rate_limited_by_address(local: LocalEngine, settings: Settings) -> None:
    app = rest(local, settings, locked=True, auth_rate_limit="2/minute")
    wrong = {"authorization": "Bearer guess"}
    async with browser(app, "203.0.113.9") as http:
        replies = [await http.get("/api/v1/status", headers=wrong) for _ in range(2)]
        assert [(reply.status_code, remaining_of(reply)) for reply in replies] == [(401, 1), (401, 0)]
        slowed = await http.get("/api/v1/status", headers=wrong)
        assert slowed.status_code == 429 and "retry-after" in slowed.headers
        assert (await http.post("/mcp", json={}, headers=wrong)).status_code == 429
        assert (await http.get("/api/v1/status", headers=OPERATOR)).status_code == 200
        assert (await http.get("/api/v1/status", headers=ANN)).status_code == 200
    async with browser(app, "203.0.113.10") as http:
        assert (await http.get("/api/v1/status", headers=wrong)).status_code == 401


async def test_behind_a_trusted_proxy_the_clients_address_counts(local: LocalEngine, settings: Settings) -> None:
    app = rest(local, settings, locked=True, auth_rate_limit="1/minute", trusted_proxies="10.0.0.0/8")
    async with browser(app, "10.0.0.1") as http:
        codes = [
            (await http.get("/api/v1/status", headers={"x-forwarded-for": client})).status_code
            for client in ("203.0.113.9", "203.0.113.10", "203.0.113.9")
        ]
    assert codes == [401, 401, 429]
    async with browser(app, "192.0.2.1") as http:  # not a trusted proxy: its header is ignored
        codes = [
            (await http.get("/api/v1/status", headers={"x-forwarded-for": client})).status_code
            for client in ("203.0.113.77", "203.0.113.78")
        ]
    assert codes == [401, 429]


async def test_a_correct_key_is_refused_after_too_many_wrong_ones_from_an_address(
    local: LocalEngine, settings: Settings
) -> None:
    locked = {"api_key": SecretStr("operator"), "mcp_api_key": SecretStr("operator"), "auth_rate_limit": "3/minute"}
    app = make_http_app(local, settings.model_copy(update=locked))
    await local.accounts.register("ada", PASSWORD)
    ada = {"x-api-key": (await local.accounts.login("ada", PASSWORD)).secret}
    async with browser(app, "203.0.113.9") as http:
        tried = [await http.get("/api/v1/status", headers={"x-api-key": f"guess {n}"}) for n in range(3)]
        assert [reply.status_code for reply in tried] == [401] * 3
        for path in ("/api/v1/status", "/mcp", "/api/v1/user/login"):
            wrong = await http.post(path, json={}, headers={"x-api-key": "guess 4"})
            right = await http.post(path, json={}, headers=OPERATOR)
            assert wrong.status_code == right.status_code == 429
            assert wrong.text == right.text and {*wrong.headers} == {*right.headers}, "nothing tells which was right"
            assert 1 <= int(right.headers["retry-after"]) <= 60
        assert (await http.get("/api/v1/status", headers=ada)).status_code == 200, "an account's key is no guess"
    async with browser(app, "203.0.113.10") as http:
        assert (await http.get("/api/v1/status", headers=OPERATOR)).status_code == 200


async def test_repeating_one_wrong_key_does_not_lock_an_address_out(local: LocalEngine, settings: Settings) -> None:
    app = make_http_app(
        local, settings.model_copy(update={"api_key": SecretStr("operator"), "auth_rate_limit": "3/minute"})
    )
    async with browser(app) as http:
        for headers in [{"x-api-key": "an old key"}] * 20 + [{"x-api-key": f"kn_unknown_{n}"} for n in range(20)]:
            assert (await http.get("/api/v1/status", headers=headers)).status_code in (401, 429)
        assert (await http.get("/api/v1/status", headers=OPERATOR)).status_code == 200


async def test_a_wrong_key_is_refused_on_routes_that_need_none(local: LocalEngine, settings: Settings) -> None:
    app = make_http_app(local, settings.model_copy(update={"api_key": SecretStr("operator")}))
    await local.accounts.register("ada", PASSWORD)
    assert await log_in(app, "ada", PASSWORD, authorization="Bearer guess") == 401
    assert await log_in(app, "ada", PASSWORD, authorization="Bearer kn_old_key") == 200
    assert await log_in(app, "ada", PASSWORD) == 200


async def test_the_port_of_the_engine_file_has_the_same_limits(local: LocalEngine, settings: Settings) -> None:
    """A proxy trusted by the main port is not trusted there, and the token is never refused."""
    limited = settings.model_copy(update={"auth_rate_limit": "3/minute", "trusted_proxies": "127.0.0.1"})
    await local.accounts.register("ada", PASSWORD)
    app = make_shared_app(local, limited, "the token of engine.json")
    tried = [await log_in(app, "ada", f"guess {n}", **{"x-forwarded-for": f"203.0.113.{n}"}) for n in range(5)]
    assert tried == [401, 401, 401, 429, 429]
    async with browser(app) as http:
        for n in range(5):
            refused = await http.get("/api/v1/status", headers={"authorization": f"Bearer guess {n}"})
            assert refused.status_code == 429
        token = {"authorization": "Bearer the token of engine.json"}
        given = {"username": "ada", "password": PASSWORD}
        assert [(await http.get("/api/v1/status", headers=token)).status_code for _ in range(5)] == [200] * 5
        assert (await http.post("/api/v1/user/login", json=given, headers=token)).status_code == 200


# -- accounts -----------------------------------------------------------------------------------


async def log_in(app: ASGIApp, username: str, password: str, client: str = "127.0.0.1", **headers: str) -> int:
    async with browser(app, client) as http:
        given = {"username": username, "password": password}
        return (await http.post("/api/v1/user/login", json=given, headers=headers)).status_code


async def test_registering_and_logging_in_are_limited_by_address(local: LocalEngine, settings: Settings) -> None:
    app = make_http_app(local, settings.model_copy(update={"auth_rate_limit": "3/minute"}))
    async with browser(app, "203.0.113.9") as http:
        given = {"username": "ada", "password": PASSWORD}
        replies = [await http.post(f"/api/v1/user/{verb}", json=given) for verb in ("register", "login", "register")]
        assert [(reply.status_code, remaining_of(reply)) for reply in replies] == [(201, 2), (200, 1), (409, 0)]
        refused = await http.post("/api/v1/user/login", json=given)
        assert refused.status_code == 429 and 1 <= int(refused.headers["retry-after"]) <= 60
        key = {"authorization": f"Bearer {replies[1].json()['api_key']}"}
        assert (await http.get("/api/v1/user", headers=key)).status_code == 200
    assert await log_in(app, "ada", PASSWORD, "203.0.113.10") == 200


async def test_login_attempts_are_limited_per_username_over_many_addresses(
    local: LocalEngine, settings: Settings
) -> None:
    await local.accounts.register("ada", PASSWORD)
    await local.accounts.register("bob", PASSWORD)
    app = make_http_app(local, settings.model_copy(update={"auth_rate_limit": "3/minute"}))
    tried = [await log_in(app, name, "a wrong guess", f"203.0.113.{n}") for n, name in enumerate(("ada", "ADA", "Ada"))]
    assert tried == [401] * 3
    assert await log_in(app, "ada", PASSWORD, "203.0.113.99") == 429
    assert await log_in(app, "bob", PASSWORD, "203.0.113.99") == 200


async def test_logins_with_the_operators_key_have_no_limit(local: LocalEngine, settings: Settings) -> None:
    await local.accounts.register("ada", PASSWORD)
    app = make_http_app(
        local, settings.model_copy(update={"auth_rate_limit": "1/day", "api_key": SecretStr("operator")})
    )
    assert [await log_in(app, "ada", PASSWORD, **OPERATOR) for _ in range(3)] == [200] * 3


def test_with_a_remote_engine_accounts_are_counted_by_their_keys() -> None:
    caller_keys = {allowance_key_of(Caller(CallerKind.ACCOUNT, key=key)) for key in ("kn_a_1", "kn_b_2", "kn_a_1")}
    assert len(caller_keys) == 2 and not any("kn_a" in str(caller_key) for caller_key in caller_keys)


# -- MCP ----------------------------------------------------------------------------------------


class Pages:
    """A resource that clients can read."""

    templates: Sequence[ResourceTemplate] = ()

    async def list(self, call: object) -> list[Resource]:
        return [Resource("page://1", "one", "A page")]

    async def read(self, call: object, uri: str) -> ResourceText | None:
        return ResourceText(uri, "text") if uri == "page://1" else None


@asynccontextmanager
async def mcp(local: LocalEngine, settings: Settings, **given: object) -> AsyncIterator[str]:
    changed = settings.model_copy(update=given)
    rates = RateLimits.from_settings(changed)
    known = make_registry().toolsets["knowledge"]
    pages = Toolset(name="pages", format_error=known.format_error, resources=Pages())
    surface = McpSurface(Registry([known, pages]), lambda _: local, toolsets="all", rates=rates)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with surface.run():
            yield

    app = Starlette(routes=make_routes(surface), lifespan=lifespan)
    async with serve_app(wrap_in_guard_and_log(app, changed, keys(), rates)) as url:
        yield f"{url}/mcp"


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


STATUS = message("tools/call", name="knowledge-status", arguments={})


async def test_a_plain_call_has_rate_limit_headers_and_gets_429_at_the_limit(
    local: LocalEngine, settings: Settings
) -> None:
    async with mcp(local, settings, mcp_list_rate_limit="2/minute") as url, httpx.AsyncClient() as http:
        assert [remaining_of(await http.post(url, json=STATUS, headers=ANN)) for _ in range(2)] == [1, 0]
        refused = await http.post(url, json=STATUS, headers=ANN)
        assert refused.json()["result"]["isError"] is True
        assert refused.json()["result"]["structuredContent"]["error"] == "rate_limited"
        assert refused.headers["x-mcp-error-code"] == "rate_limited"
        assert refused.headers["x-ratelimit-limit"] == "2" and "retry-after" in refused.headers
        assert "x-ratelimit-limit" not in (await http.post(url, json=STATUS)).headers, "the local owner has no limit"


async def test_reading_resources_is_limited_on_the_rpc_plane(local: LocalEngine, settings: Settings) -> None:
    allowed = {"mcp_list_rate_limit": "1/minute", "mcp_resource_rate_limit": "1/minute"}
    async with mcp(local, settings, **allowed) as url, httpx.AsyncClient() as http:
        for call in (message("resources/list"), message("resources/read", uri="page://1")):
            assert remaining_of(await http.post(url, json=call, headers=ANN)) == 0
            refused = await http.post(url, json=call, headers=ANN)
            assert refused.status_code == refused.json()["error"]["code"] == 429
            assert refused.json()["error"]["data"]["http_status"] == 429
            assert refused.headers["x-mcp-error-code"] == "rate_limited"
            assert 1 <= int(refused.headers["retry-after"]) <= 60


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_has_the_same_rate_limit(mode: str, local: LocalEngine, settings: Settings) -> None:
    heads: list[httpx2.Headers] = []

    async def keep(response: httpx2.Response) -> None:
        heads.append(response.headers)

    async with (
        mcp(local, settings, mcp_list_rate_limit="2/minute", upload_rate_limit="2/minute") as url,
        httpx2.AsyncClient(headers=ANN, event_hooks={"response": [keep]}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        await client.call_tool("knowledge-status", {})
        await client.call_tool("knowledge-add", {"file_path": "/nowhere.txt"})
        await client.call_tool("knowledge-status", {})
        refused = await client.call_tool("knowledge-status", {})
        assert refused.is_error
        assert json.loads(refused.content[0].text)["error"] == "rate_limited"  # type: ignore[union-attr]
    remaining = [head["x-ratelimit-remaining"] for head in heads if "x-ratelimit-remaining" in head]
    assert remaining == ["1", "1", "0", "0"]
    assert "retry-after" in [head for head in heads if "x-ratelimit-remaining" in head][-1]


async def test_the_rate_limit_file_cannot_be_read_by_tools(settings: Settings) -> None:
    rates = RateLimits.from_settings(settings.model_copy(update={"rate_limit_storage": "file"}))
    with pytest.raises(AccessDenied):
        make_call_limits(settings).folders.resolve(str(settings.data / FILENAME))
    rates.close()
