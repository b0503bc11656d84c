"""Accounts over MCP: an API key acts as its account over HTTP and stdio, on the endpoint of every contract."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Json
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import serve_app
from tests.contracts.transports import StdioTransport, unwrap
from tests.support.accounts import PASSWORD, get_engine_for_key
from tests.support.engines import add_note


async def a_key(engine: LocalEngine, username: str) -> str:
    await engine.accounts.register(username, PASSWORD)
    return (await engine.accounts.login(username, PASSWORD)).secret


async def call(http: httpx.AsyncClient, tool: str, arguments: Json, key: str | None) -> Json:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {} if key is None else {"X-API-Key": key}
    reply = await http.post("/mcp", json=message, headers={**headers, "X-MCP-Toolsets": "all"})
    return unwrap(reply.json()["result"])


async def test_an_account_acts_as_itself_on_every_endpoint(local: LocalEngine, settings: Settings) -> None:
    ada, bob = await a_key(local, "ada"), await a_key(local, "bob")
    await add_note(await get_engine_for_key(local, ada), "the secret garden gate")
    async with serve_app(make_http_app(local, settings)) as url, httpx.AsyncClient(base_url=url) as http:
        counts = {"knowledge-search": "results", "search_knowledge_base": "results", "kb_search": "results"}
        for tool, field in counts.items():
            arguments: Json = {"query": "garden gate"}
            assert len((await call(http, tool, arguments, ada)).get(field) or []) == 1, tool  # type: ignore[arg-type]
            for other in (bob, None):
                assert not (await call(http, tool, arguments, other)).get(field), tool
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        await local.accounts.disable("ada")
        assert (await http.post("/mcp", json=ping, headers={"X-API-Key": ada})).status_code == 401


async def test_an_accounts_tools_open_no_files_of_the_server(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    ada = await a_key(local, "ada")
    secret = settings.data / "plans.txt"
    secret.write_text("the operator's plans")
    listed_folder = tmp_path / "listed"
    listed_folder.mkdir()
    (listed_folder / "open.txt").write_text("for everybody")
    arguments: Json = {"file_path": str(secret), "async": False}
    async with serve_app(make_http_app(local, settings)) as url, httpx.AsyncClient(base_url=url) as http:
        assert (await call(http, "knowledge-add", arguments, ada))["error"] == "access_denied"
        assert (await call(http, "knowledge-add", arguments, None))["success"] is True
    listed = settings.model_copy(update={"files": str(listed_folder)})
    async with serve_app(make_http_app(local, listed)) as url, httpx.AsyncClient(base_url=url) as http:
        opened = await call(http, "knowledge-add", {"file_path": str(listed_folder / "open.txt"), "async": False}, ada)
        assert opened["success"] is True


async def test_a_stdio_server_acts_for_the_account_whose_key_it_was_given(
    settings: Settings, parsers: SharedParsers
) -> None:
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    key = await a_key(engine, "ada")
    await add_note(await get_engine_for_key(engine, key), "the secret garden gate")
    engine.close()
    keyword_only = {"KNOWLEDGE_EMBEDDING": "none"}
    for environment, hits in (({"KNOWLEDGE_MANAGER_API_KEY": key}, 1), ({}, 0)):
        process = StdioTransport(settings.data, **keyword_only, **environment)
        try:
            found = await process.call("knowledge-search", query="garden gate")
            assert len(found.get("results") or []) == hits
        finally:
            process.close()


@pytest.mark.parametrize("key", ["kn_nobodys_key", "nonsense"])
def test_a_stdio_server_with_a_wrong_key_does_not_become_the_local_owner(tmp_path: Path, key: str) -> None:
    command = [sys.executable, "-m", "knowledge", "serve", "--transport", "stdio", "--data", str(tmp_path), "--json"]
    environment = {"KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_MANAGER_API_KEY": key}
    ended = subprocess.run(command, input="", capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert ended.returncode != 0
    assert json.loads(ended.stderr.splitlines()[-1])["error"]["code"] == "invalid_key"
