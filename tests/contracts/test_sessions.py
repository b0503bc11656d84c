"""MCP sessions: limits per caller, and ids that stay valid when the server restarts."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import httpx

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.mcp.standalone_sessions import KEY_FILE, StandaloneMcpSessions
from tests.contracts.app_server import serve_app
from tests.support.accounts import PASSWORD

PER_CALLER = 5
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
ACCEPT = {"Accept": "application/json, text/event-stream"}


class SessionClient:
    """A client that opens sessions with one key or from one address."""

    def __init__(self, url: str, key: str | None = None, source: str = "127.0.0.1") -> None:
        headers = {**ACCEPT, **({"X-API-Key": key} if key else {})}
        transport = httpx.AsyncHTTPTransport(local_address=source)
        self.ids = itertools.count(2)
        self.http = httpx.AsyncClient(base_url=url, headers=headers, transport=transport, timeout=30)

    async def open(self) -> httpx.Response:
        return await self.http.post("/mcp", json=INITIALIZE)

    async def session(self) -> dict[str, str]:
        opened = await self.open()
        assert opened.status_code == 200, opened.text
        return {"Mcp-Session-Id": opened.headers["mcp-session-id"]}

    async def ping(self, session: dict[str, str]) -> int:
        return (await self.post(session, "ping")).status_code

    async def post(self, session: dict[str, str], method: str, params: dict[str, Any] | None = None) -> httpx.Response:
        asked = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, **({"params": params} if params else {})}
        return await self.http.post("/mcp", json=asked, headers=session)

    async def __aenter__(self) -> SessionClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()


async def test_a_caller_at_the_session_limit_loses_its_own_idle_sessions_only(
    local: LocalEngine, settings: Settings
) -> None:
    keys = []
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
        keys.append((await local.accounts.login(name, PASSWORD)).secret)
    app = make_http_app(local, settings.model_copy(update={"max_sessions_per_caller": PER_CALLER}))
    async with serve_app(app) as url, SessionClient(url, keys[0]) as ada, SessionClient(url, keys[1]) as bob:
        kept = await bob.session()
        first = await ada.session()
        last = [await ada.session() for _ in range(PER_CALLER * 3)][-1]
        assert await ada.ping(last) == 200
        assert await ada.ping(first) == 200  # its id is valid, so it is opened again in the place of another
        assert await bob.ping(kept) == 200
        assert await ada.ping(kept) == 404  # another's session looks as if it did not exist


async def test_sessions_without_an_account_are_counted_by_address(local: LocalEngine, settings: Settings) -> None:
    app = make_http_app(local, settings.model_copy(update={"max_sessions_per_caller": PER_CALLER}))
    async with serve_app(app) as url, SessionClient(url, source="127.0.0.2") as many, SessionClient(url) as one:
        kept = await one.session()
        opened = [await many.session() for _ in range(PER_CALLER + 2)]
        assert [await many.ping(session) for session in opened] == [200] * len(opened)
        assert await one.ping(kept) == 200


async def test_sessions_that_are_in_use_are_not_dropped_and_the_refusal_says_what_to_do(
    local: LocalEngine, settings: Settings
) -> None:
    app = make_http_app(local, settings.model_copy(update={"max_sessions_per_caller": 1}))
    async with serve_app(app) as url, SessionClient(url) as client:
        session = await client.session()
        async with client.http.stream("GET", "/mcp", headers=session) as listening:
            assert listening.status_code == 200
            refused = await client.open()
            assert refused.status_code == 429 and refused.headers["retry-after"] == "60"
            error = refused.json()["error"]
            assert "1 of your 1 sessions are in use" in error["message"] and refused.json()["id"] == 1
            assert "KNOWLEDGE_MAX_SESSIONS_PER_CALLER" in error["data"]["hint"]
        assert await client.ping(session) == 200


async def test_a_session_that_its_client_ended_is_no_longer_counted(local: LocalEngine, settings: Settings) -> None:
    app = make_http_app(local, settings.model_copy(update={"max_sessions_per_caller": 2}))
    async with serve_app(app) as url, SessionClient(url) as client:
        ended, kept = await client.session(), await client.session()
        assert (await client.http.delete("/mcp", headers=ended)).status_code == 200
        await client.session()
        assert await client.ping(kept) == 200


async def test_a_session_goes_on_after_a_restart_and_on_another_server(local: LocalEngine, settings: Settings) -> None:
    async with serve_app(make_http_app(local, settings)) as url, SessionClient(url) as client:
        session = await client.session()
        assert await client.ping(session) == 200
    async with serve_app(make_http_app(local, settings)) as url, SessionClient(url) as client:
        called = await client.post(session, "tools/call", {"name": "knowledge-status", "arguments": {}})
        assert called.status_code == 200 and '"isError":false' in called.text
        assert called.headers["mcp-session-id"] == session["Mcp-Session-Id"]
        async with client.http.stream("GET", "/mcp", headers=session) as listening:
            assert listening.status_code == 200


async def test_two_first_requests_after_a_restart_open_one_session(local: LocalEngine, settings: Settings) -> None:
    async with serve_app(make_http_app(local, settings)) as url, SessionClient(url) as client:
        session = await client.session()
    app = make_http_app(local, settings.model_copy(update={"max_sessions_per_caller": 1}))
    async with serve_app(app) as url, SessionClient(url) as client:
        assert await asyncio.gather(*(client.ping(session) for _ in range(8))) == [200] * 8


async def test_only_ids_that_were_issued_to_the_caller_and_not_ended_are_accepted(
    local: LocalEngine, settings: Settings
) -> None:
    keys = []
    for name in ("ada", "bob"):
        await local.accounts.register(name, PASSWORD)
        keys.append((await local.accounts.login(name, PASSWORD)).secret)
    async with serve_app(make_http_app(local, settings)) as url, SessionClient(url, keys[0]) as ada:
        session, ended = await ada.session(), await ada.session()
        assert (await ada.http.delete("/mcp", headers=ended)).status_code == 200
    nonce, version, mac = session["Mcp-Session-Id"].split(".")
    forged = [
        f"{nonce}.{version}.{mac[::-1]}", f"{nonce}.2024-11-05.{mac}", f"{nonce}.{version}", "abc", "x" * 5000, "a.b.c",
    ]  # fmt: skip
    async with (
        serve_app(make_http_app(local, settings)) as url,
        SessionClient(url, keys[0]) as ada,
        SessionClient(url, keys[1]) as bob,
        SessionClient(url) as owner,
    ):
        for refused in [ended, *({"Mcp-Session-Id": each} for each in forged)]:
            assert await ada.ping(refused) == 404, refused
        assert (await bob.ping(session), await owner.ping(session)) == (404, 404)
        assert await ada.ping(session) == 200


async def test_an_error_names_its_request_and_no_session_that_does_not_exist(
    local: LocalEngine, settings: Settings
) -> None:
    async with serve_app(make_http_app(local, settings)) as url, SessionClient(url) as client:
        unknown = await client.post({"Mcp-Session-Id": "unknown"}, "ping")
        assert unknown.status_code == 404 and "mcp-session-id" not in unknown.headers
        assert unknown.json()["id"] == 2 and unknown.json()["error"]["message"] == "Session not found"
        assert unknown.json()["error"]["data"]["error_type"] == "session_not_found"
        session = await client.session()
        wrong = await client.http.post("/mcp", json={"jsonrpc": "2.0", "id": "seven"}, headers=session)
        assert wrong.status_code == 400 and wrong.json()["id"] == "seven"
        damaged = {"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"protocolVersion": 7}}
        refused = await client.http.post("/mcp", json=damaged)
        assert (
            "mcp-session-id" not in refused.headers
            or await client.ping({"Mcp-Session-Id": refused.headers["mcp-session-id"]}) == 200
        )


async def test_a_server_without_an_engine_accepts_its_ids_after_a_restart(tmp_path: Path) -> None:
    before = StandaloneMcpSessions(tmp_path / "data")
    kept, ended = [await before.issue("local:0", "2025-06-18") for _ in range(2)]
    await before.end(ended, "local:0")
    assert await before.find_version(ended, "local:0") is None
    after = StandaloneMcpSessions(tmp_path / "data")
    assert await after.find_version(kept, "local:0") == "2025-06-18"
    assert await after.find_version(kept, "account:2") is None
    assert (tmp_path / "data" / KEY_FILE).stat().st_mode & 0o077 == 0
    assert await StandaloneMcpSessions(tmp_path / "other").find_version(kept, "local:0") is None
