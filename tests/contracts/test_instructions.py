"""Instructions that clients get when they connect: those of the toolsets that the request sees."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.toolsets import make_registry
from knowledge.toolsets.base import ToolsetView
from tests.contracts.app_server import make_app, serve_app
from tests.contracts.transports import StdioTransport

REGISTRY = make_registry()
MAX_INSTRUCTIONS_CHARS = 600
HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def instructions_of(*toolsets: str) -> str:
    return REGISTRY.join_instructions(ToolsetView(toolsets))


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", REGISTRY.names)
def test_the_instructions_of_a_toolset_are_short_and_name_only_visible_tools(name: str, read_only: bool) -> None:
    view = ToolsetView((name,), read_only)
    toolset, text = REGISTRY.toolsets[name], REGISTRY.join_instructions(view)
    assert 100 < len(toolset.instructions + toolset.change_instructions) < MAX_INSTRUCTIONS_CHARS
    own = {tool.name for tool in REGISTRY.list_tools(view)}
    named = {word for word in re.findall(r"[a-z]+(?:[-_][a-z]+)*", text) if word in REGISTRY.by_name}
    assert named and named <= own


def test_several_toolsets_have_their_instructions_one_after_the_other() -> None:
    paragraphs = instructions_of("kb", "knowledge").split("\n\n")
    assert paragraphs[0].startswith(REGISTRY.toolsets["knowledge"].instructions)
    assert paragraphs[1].startswith(REGISTRY.toolsets["kb"].instructions)


@pytest.mark.requirement("mcp.instructions.view")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_gets_the_instructions_of_the_toolsets_that_it_sees(
    mode: str, local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url:
        for path, view in (
            ("/mcp", ToolsetView(("knowledge",))),
            ("/mcp/sage", ToolsetView(("sage",))),
            ("/mcp/kb/readonly", ToolsetView(("kb",), read_only=True)),
        ):
            client = Client(streamable_http_client(f"{url}{path}"), mode="legacy" if mode == "legacy" else "auto")
            async with client:
                assert client.instructions == REGISTRY.join_instructions(view)


@pytest.mark.requirement("mcp.instructions.view")
async def test_the_header_chooses_the_instructions_too(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.post("/mcp", json=message, headers={"X-MCP-Toolsets": "rag,kb"})
        assert answer.json()["result"]["instructions"] == instructions_of("rag", "kb")
        answer = await http.post("/mcp", json=message, headers={"X-MCP-Toolsets": "nobody"})
        assert "instructions" not in answer.json()["result"]


@pytest.mark.requirement("mcp.instructions.view")
@pytest.mark.parametrize(("setting", "wanted"), [("", ("knowledge",)), ("rag,kb", ("rag", "kb"))])
def test_stdio_has_the_instructions_of_its_toolsets(setting: str, wanted: tuple[str, ...], tmp_path: Path) -> None:
    process = StdioTransport(tmp_path, KNOWLEDGE_TOOLSETS=setting, KNOWLEDGE_EMBEDDING="none")
    try:
        answer = process.request("initialize", HANDSHAKE)
    finally:
        process.close()
    assert answer["result"]["instructions"] == instructions_of(*wanted)
