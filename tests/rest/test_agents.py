"""Agents over real MCP: who is seen, what is refused, and trying a tool over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from mcp import Client
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.model.events import EventKind
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app
from tests.support.accounts import register
from tests.support.engines import add_note
from tests.support.watching import watching

CALL: dict[str, Any] = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "knowledge-status", "arguments": {}},
}  # fmt: skip


async def wait_for(read: Callable[[], Any], is_there: Callable[[Any], bool], engine: Engine) -> Any:
    """Read until the reports of the server have arrived, which it sends within a second; events tell when."""
    async with watching(engine) as reader:
        await reader.read()
        while not is_there(found := await read()):
            await reader.read_until(lambda event: event.kind in (EventKind.AGENT, EventKind.REFUSAL))
        return found


async def test_a_plain_call_and_a_client_with_a_session_are_seen(local: LocalEngine, settings: Settings) -> None:
    async with serve_app(make_http_app(local, settings)) as url, httpx.AsyncClient(base_url=url, timeout=30) as http:
        called = await http.post("/mcp/rag", json=CALL | {"params": {"name": "list_documents", "arguments": {}}},
                                 headers={"User-Agent": "my-script/3.1 (linux)"})  # fmt: skip
        assert called.status_code == 200
        async with Client(f"{url}/mcp") as client:
            await client.call_tool("knowledge-status", {})
        found = await wait_for(
            local.agents.list_seen, lambda seen: len(seen) == 2 and all(a.calls for a in seen), local
        )
    by_toolset = {each.toolset: each for each in found}
    script, sdk = by_toolset["rag"], by_toolset["knowledge"]
    assert (script.client, script.version, script.last_tool, script.calls) == ("my-script", "3.1", "list_documents", 1)
    assert (sdk.client, sdk.last_tool, sdk.transport) == ("mcp", "knowledge-status", "http")


async def test_refused_attempts_are_kept_as_help(local: LocalEngine, settings: Settings) -> None:
    locked = settings.model_copy(update={"mcp_api_key": SecretStr("mcp-key"), "api_key": SecretStr("rest-key")})
    async with serve_app(make_http_app(local, locked)) as url, httpx.AsyncClient(base_url=url, timeout=30) as http:
        agent = {"User-Agent": "claude-code/2.1"}
        assert (await http.post("/mcp", json=CALL, headers=agent)).status_code == 401
        assert (await http.post("/mcp", json=CALL, headers={**agent, "X-API-Key": "wrong"})).status_code == 401
        right = {**agent, "X-API-Key": "mcp-key"}
        assert (await http.post("/mcp", json=CALL, headers={**right, "Host": "evil.example"})).status_code == 403
        assert (await http.post("/mcp/none", json=CALL, headers=right)).status_code == 404
        assert (await http.get("/sse", headers=right)).status_code == 404
        assert (await http.get("/api/v1/nothing", headers={"X-API-Key": "rest-key"})).status_code == 404
        await wait_for(lambda: local.agents.list_refused(""), lambda found: len(found) == 5, local)
        listed = (await http.get("/api/v1/agents", headers={"X-API-Key": "rest-key"})).json()
    assert listed["agents"] == []
    refused = {each["reason"]: each for each in listed["refused"]}
    assert set(refused) == {"no_key", "wrong_key", "host", "toolset", "transport"}
    assert refused["host"]["detail"] == "evil.example" and refused["toolset"]["detail"] == "none"
    assert {each["client"] for each in refused.values()} == {"claude-code/2.1"}
    assert refused["no_key"]["address"] == "127.0.0.1" and "mcp-key" not in str(listed)


async def test_an_account_sees_that_a_key_is_missing_at_its_own_address(local: LocalEngine, settings: Settings) -> None:
    ada = await register(local, "ada")
    key = (await ada.accounts.create_key("laptop")).secret
    locked = settings.model_copy(update={"mcp_api_key": SecretStr("mcp-key"), "api_key": SecretStr("rest-key")})
    async with serve_app(make_http_app(local, locked)) as url, httpx.AsyncClient(base_url=url, timeout=30) as http:
        assert (await http.post("/mcp", json=CALL)).status_code == 401
        assert (await http.post("/mcp", json=CALL, headers={"X-API-Key": key})).status_code == 200
        await wait_for(ada.agents.list_seen, lambda found: len(found) == 1, ada)
        await wait_for(lambda: local.agents.list_refused(""), lambda found: len(found) == 1, local)
        listed = (await http.get("/api/v1/agents", headers={"X-API-Key": key})).json()
    assert [(each["key_name"], each["caller"]) for each in listed["agents"]] == [("laptop", "account")]
    assert [(each["reason"], each["client"], each["address"]) for each in listed["refused"]] == [("no_key", "", "")]


async def test_the_toolsets_are_listed_and_a_tool_is_tried_as_the_caller(
    local: LocalEngine, settings: Settings
) -> None:
    ada = await register(local, "ada")
    await add_note(ada, "the kettle boils", title="Tea")
    key = (await ada.accounts.create_key("page")).secret
    async with (
        serve_app(make_http_app(local, settings)) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=30, headers={"X-API-Key": key}) as http,
    ):
        toolsets = {each["name"]: each for each in (await http.get("/toolsets")).json()["toolsets"]}
        assert toolsets["knowledge"]["default"] and not toolsets["rag"]["default"]
        assert toolsets["rag"]["path"] == "/mcp/rag"
        search = next(each for each in toolsets["knowledge"]["tools"] if each["name"] == "knowledge-search")
        assert "query" in search["input_schema"]["properties"] and search["read_only"]
        answer = await http.post("/tools/knowledge-search", json={"arguments": {"query": "kettle"}})
        assert answer.status_code == 200, answer.text
        outcome = answer.json()
        assert not outcome["is_error"] and "the kettle boils" in str(outcome["result"]) and outcome["took_ms"] > 0
        assert "x-ratelimit-limit" in answer.headers
        refused = (await http.post("/tools/knowledge-search", json={"arguments": {"q": "kettle"}})).json()
        assert refused["is_error"] and "query" in str(refused["result"])
        unknown = await http.post("/tools/knowledge-serch", json={})
        assert unknown.status_code == 404 and "knowledge-search" in unknown.json()["error"]["hint"]
        nobody = await http.post(
            "/tools/knowledge-search", json={"arguments": {"query": "kettle"}}, headers={"X-API-Key": ""}
        )
        assert "kettle boils" not in nobody.text
        assert (await http.get("/agents")).json()["agents"] == []


@pytest.mark.parametrize("limit", ["2/minute"])
async def test_a_tool_counts_against_the_limits_of_mcp(local: LocalEngine, settings: Settings, limit: str) -> None:
    key = (await (await register(local, "ada")).accounts.create_key("page")).secret
    limited = settings.model_copy(update={"mcp_query_rate_limit": limit})
    async with (
        serve_app(make_http_app(local, limited)) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=30, headers={"X-API-Key": key}) as http,
    ):
        body = {"arguments": {"query": "tea"}}
        codes = [(await http.post("/tools/knowledge-search", json=body)).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
