"""MCP sessions: a caller at the limit loses its own idle sessions and nobody else's."""

from __future__ import annotations

from typing import Any

import httpx

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
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
        self.http = httpx.AsyncClient(base_url=url, headers=headers, transport=transport, timeout=30)

    async def open(self) -> httpx.Response:
        return await self.http.post("/mcp", json=INITIALIZE)

    async def session(self) -> dict[str, str]:
        opened = await self.open()
        assert opened.status_code == 200, opened.text
        return {"Mcp-Session-Id": opened.headers["mcp-session-id"]}

    async def ping(self, session: dict[str, str]) -> int:
        asked: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        return (await self.http.post("/mcp", json=asked, headers=session)).status_code

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
        assert await ada.ping(first) == 404
        assert await ada.ping(last) == 200
        assert await bob.ping(kept) == 200
        assert await ada.ping(kept) == 404  # another's session looks as if it did not exist


async def test_sessions_without_an_account_are_counted_by_address(local: LocalEngine, settings: Settings) -> None:
    app = make_http_app(local, settings.model_copy(update={"max_sessions_per_caller": PER_CALLER}))
    async with serve_app(app) as url, SessionClient(url, source="127.0.0.2") as many, SessionClient(url) as one:
        kept = await one.session()
        opened = [await many.session() for _ in range(PER_CALLER + 2)]
        assert [await many.ping(session) for session in opened] == [404] * 2 + [200] * PER_CALLER
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
