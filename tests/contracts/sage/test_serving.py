"""Contract 003: the configuration file, capabilities and limits of the server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.errors import InvalidParameter
from knowledge.surfaces.sage import make_missing_engine, make_sage_app, make_sage_registry, open_sage
from knowledge.toolsets.base import ToolCall
from knowledge.toolsets.sage.configuration import (
    CAPABILITIES,
    SHIPPED_CONTENT,
    SageConfiguration,
    load_configuration,
    read_configuration,
)
from knowledge.toolsets.sage.service import SageService
from tests.contracts.app_server import make_app, serve_app
from tests.contracts.sage.content_folder import SlowContentFolder, make_sage, write_pages

ROOT = Path(__file__).parents[3]


@pytest.mark.requirement("003.config.keys")
def test_the_shipped_configuration_has_every_key_of_the_contract() -> None:
    found = read_configuration(ROOT / "config" / "services" / "mcp.yaml")
    assert found == SageConfiguration(
        host="localhost", port=8000, timeout_ms=5000, max_connections=10, capabilities=CAPABILITIES
    )  # fmt: skip


@pytest.mark.requirement("003.config.content")
def test_the_content_folder_is_relative_to_the_configuration_file(tmp_path: Path) -> None:
    write_pages(tmp_path / "mine")
    file = tmp_path / "sage.yaml"
    file.write_text("sage:\n  content: mine\nsomething_else: 1\n", "utf-8")
    assert load_configuration({"SAGE_CONFIG": str(file)}).content == tmp_path / "mine"
    assert load_configuration({}).content == SHIPPED_CONTENT


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("mcp: [", "not valid YAML"), ("- a", "sections"),
        ("mcp:\n  prot: 1", "mcp.prot"), ("mcp:\n  port: x", "mcp.port"),
        ("mcp:\n  max_connections: 0", "max_connections"), ("mcp:\n  timeout_ms: true", "timeout_ms"),
        ("mcp:\n  capabilities: [fly]", "capabilities"), ("sage:\n  content: nowhere", "sage.content"),
    ],
)  # fmt: skip
def test_an_invalid_configuration_is_rejected_with_the_key(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "sage.yaml").write_text(text, "utf-8")
    with pytest.raises(InvalidParameter, match=named):
        read_configuration(tmp_path / "sage.yaml")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        read_configuration(tmp_path / "missing.yaml")


@pytest.mark.requirement("003.config.capabilities")
@pytest.mark.parametrize(
    ("capability", "tool", "prompts", "resources"),
    [
        ("knowledge_retrieval", "sage_get_knowledge", 0, True),
        ("search", "sage_search", 0, False),
        ("context_management", "sage_get_context", 1, False),
    ],
)
def test_capabilities_enable_and_disable_tools(capability: str, tool: str, prompts: int, resources: bool) -> None:
    registry = make_sage_registry(SageConfiguration(capabilities=(capability,)))
    assert list(registry.by_name) == [tool, "sage_info"]
    toolset = registry.toolsets["sage"]
    assert len(toolset.prompts) == prompts
    assert (toolset.resources is not None) is resources


@pytest.mark.requirement("003.config.max_connections")
async def test_more_requests_than_allowed_are_answered_with_503(tmp_path: Path) -> None:
    configuration = SageConfiguration(max_connections=2)
    disk = SlowContentFolder(write_pages(tmp_path / "content"), 30.0)
    app = make_sage_app(make_sage(disk), configuration, Settings(data=tmp_path / "data"))
    message: dict[str, Any] = {
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "sage_get_knowledge", "arguments": {"layer": "core", "timeout_ms": 1500}},
    }  # fmt: skip
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        answers = await asyncio.gather(*(http.post("/mcp", json=message) for _ in range(5)))
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(refused) == 3
        assert refused[0].json()["id"] == 7
        assert (await http.get("/health")).json() == {"status": "healthy"}
        assert (await http.post("/mcp", json={**message, "method": "tools/list", "params": {}})).status_code == 200
    SlowContentFolder.release_all()


@pytest.mark.requirement("003.errors.timeout")
async def test_a_missed_deadline_has_the_contracts_error_format(tmp_path: Path) -> None:
    sage = make_sage(SlowContentFolder(write_pages(tmp_path), 30.0, quick=("core/defaults.md",)))
    tool = make_sage_registry(SageConfiguration()).by_name["sage_get_knowledge"]
    call = ToolCall(engine=make_missing_engine(), services={SageService: sage})
    answer: Any = await tool.run(call, {"layer": "core", "timeout_ms": 300})
    SlowContentFolder.release_all()
    assert answer.code == answer.body["error"]["code"] == "TIMEOUT"
    assert answer.body["error"]["message"] == "Operation exceeded T2 timeout (300ms)"
    assert answer.body["error"]["details"]["timeout_level"] == "T2"
    assert answer.body["error"]["details"]["elapsed_ms"] >= 300
    assert answer.body["fallback"]["content"].startswith("# Defaults")
    assert answer.body["fallback"]["complete"] is False


async def test_a_request_from_a_foreign_origin_is_rejected(tmp_path: Path) -> None:
    app = make_sage_app(open_sage(SageConfiguration()), SageConfiguration(), Settings(data=tmp_path / "data"))
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await http.post("/mcp", json=body, headers={"origin": "https://example.org"})).status_code == 403
        assert (await http.post("/mcp", json=body)).status_code == 200


@pytest.mark.requirement("003.serve.whole_server")
async def test_the_layers_are_served_next_to_the_other_contracts(
    tmp_path: Path, local: LocalEngine, settings: Settings
) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:

        async def ask(path: str, method: str, **params: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return (await http.post(path, json=message)).json()["result"]

        listed = await ask("/mcp/sage", "tools/list")
        assert {tool["name"].partition("_")[0] for tool in listed["tools"]} == {"sage"}
        answer = await ask("/mcp/sage", "tools/call", name="sage_get_knowledge", arguments={"layer": "core"})
        assert answer["structuredContent"]["metadata"]["files_loaded"] == 4
        assert (await ask("/mcp", "resources/list"))["resources"] == []


@pytest.mark.requirement("003.errors.internal")
async def test_an_unexpected_error_is_internal_and_its_text_is_hidden(tmp_path: Path) -> None:
    class Faulty(SlowContentFolder):
        def read(self, path: str) -> bytes:
            raise RuntimeError("the inside of the program")

    sage = make_sage(Faulty(write_pages(tmp_path), 0))
    tool = make_sage_registry(SageConfiguration()).by_name["sage_get_knowledge"]
    answer: Any = await tool.run(
        ToolCall(engine=make_missing_engine(), services={SageService: sage}), {"layer": "core"}
    )
    assert answer.body["error"]["code"] == "INTERNAL"
    assert "inside" not in str(answer.body)
    assert os.fspath(tmp_path) not in str(answer.body)
