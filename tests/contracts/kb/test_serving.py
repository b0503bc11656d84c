"""The MCP process: start without its engine, both API keys, and imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.contracts.kb.conftest import Agent, TwoProcesses, open_agent
from tests.contracts.kb.processes import ENGINE_KEY, MCP_KEY, WAIT_SECONDS, RecordingProxy, run_mcp_server, run_server
from tests.contracts.transports import PlainTransport

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
NOWHERE = "http://127.0.0.1:9"
TOOLS = [
    "kb_search", "kb_addnote", "kb_upload_start", "kb_upload_chunk", "kb_upload_finish", "kb_update_note", "kb_get",
    "kb_status", "kb_jobs",
]  # fmt: skip


async def test_the_nine_tools_are_served_on_both_paths(agent: Agent) -> None:
    for path in ("/mcp", "/mcp/kb"):
        answer = await agent.http.post(path, json=LIST)
        assert [tool["name"] for tool in answer.json()["result"]["tools"]] == TOOLS
    assert (await agent.http.post("/mcp/knowledge", json=LIST)).status_code == 404


@pytest.mark.requirement("004.serve.starts")
async def test_every_call_to_the_engine_carries_its_key(agent: Agent, proxy: RecordingProxy) -> None:
    await agent.add_and_wait("kb_addnote", text="With the engine's key", collection="keys")
    await agent.call("kb_search", query="key", collection="keys")
    await agent.call("kb_upload_finish", upload_id=await agent.upload_parts("key.txt", b"in a file"))
    await agent.call("kb_status")
    assert len(proxy.requests) == 4
    assert {request.headers["authorization"] for request in proxy.requests} == {f"Bearer {ENGINE_KEY}"}


@pytest.mark.requirement("004.serve.unreachable")
async def test_without_its_engine_it_starts_and_its_tools_report_it_unreachable(
    processes: TwoProcesses, tmp_path: Path
) -> None:
    with run_mcp_server(tmp_path, NOWHERE) as mcp:
        async with open_agent(mcp.url, processes) as agent:
            assert (await agent.http.get("/health")).status_code == 200
            upload = await agent.upload_parts("a.txt", b"kept until then")
            for tool, arguments in {
                "kb_search": {"query": "tea"},
                "kb_addnote": {"text": "tea"},
                "kb_upload_finish": {"upload_id": upload},
                "kb_update_note": {"document_id": 1, "text": "tea"},
                "kb_get": {"document_id": 1},
                "kb_status": {},
                "kb_jobs": {},
            }.items():
                refused = await agent.call(tool, **arguments)  # type: ignore[arg-type]
                assert refused["error"] == "engine_unreachable", refused
                assert refused["message"] == f"The engine at {NOWHERE} is unreachable"
                assert refused["details"]["url"] == NOWHERE


@pytest.mark.requirement("004.serve.wrong_key")
async def test_a_wrong_engine_key_is_reported_as_an_invalid_key(processes: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, processes.engine.url, KB_API_KEY="not the engine's") as mcp:
        async with open_agent(mcp.url, processes) as agent:
            refused = await agent.call("kb_status")
            assert refused["error"] == "invalid_key"
            assert "KB_API_KEY" in refused["hint"]


@pytest.mark.requirement("004.serve.embedded")
async def test_without_an_engine_url_the_tools_run_on_the_embedded_engine(tmp_path: Path) -> None:
    given = {"KNOWLEDGE_EMBEDDING": "none"}
    with run_server("serve", "--toolsets", "kb", "--data", str(tmp_path), **given) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=WAIT_SECONDS) as http:
            tools = PlainTransport(http)
            note = await tools.call("kb_addnote", text="Kept in one process", collection="memory", tags=["x"])
            while not (found := (await tools.call("kb_search", query="process", collection="memory"))["results"]):
                assert (await tools.call("kb_jobs", status="failed"))["jobs"] == []
            assert (found[0]["collection"], found[0]["tags"]) == ("memory", ["x"])
            number = found[0]["document_id"]
            moved = await tools.call("kb_update_note", document_id=number, text="It moved", collection="work")
            assert (moved["id"], moved["collection"], moved["tags"]) == (number, "work", ["x"])
            shown = await tools.call("kb_get", document_id=number)
            assert ([chunk["text"] for chunk in shown["chunks"]], shown["collection"]) == (["It moved"], "work")
            assert note["job_id"] in [job["id"] for job in (await tools.call("kb_jobs"))["jobs"]]


@pytest.mark.requirement("004.serve.imports")
def test_a_process_with_a_remote_engine_imports_no_engine_libraries(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from knowledge.config import Settings
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.open_engine import open_engine_in_background

async def main():
    settings = Settings(toolsets="kb")
    async with open_engine_in_background(settings) as (engine, _):
        make_http_app(engine, settings)

asyncio.run(main())
parts = {"tantivy", "faiss", "onnxruntime", "tokenizers", "numpy", "sqlalchemy", "pypdfium2", "knowledge.engine.local"}
print(sorted(parts & set(sys.modules)))
"""
    environment = {**os.environ, "KB_ENGINE_URL": NOWHERE, "KNOWLEDGE_DATA": str(tmp_path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    assert done.stdout.strip() == "[]"


# -- authentication -----------------------------------------------------------------------------


async def list_tools(url: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as http:
        return await http.post("/mcp/kb", json=LIST, headers=headers)


@pytest.mark.requirement("004.auth.valid")
async def test_the_right_key_is_accepted(processes: TwoProcesses) -> None:
    assert (await list_tools(processes.mcp.url, Authorization=f"Bearer {MCP_KEY}")).status_code == 200
    assert (await list_tools(processes.mcp.url, **{"X-API-Key": MCP_KEY})).status_code == 200


@pytest.mark.requirement("004.auth.missing")
async def test_a_missing_key_is_rejected(processes: TwoProcesses) -> None:
    refused = await list_tools(processes.mcp.url)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["error"]["data"]["error_type"] == "missing_key"


@pytest.mark.requirement("004.auth.invalid", "004.auth.independent")
@pytest.mark.parametrize("key", ["wrong", ENGINE_KEY, MCP_KEY + "x"])
async def test_a_wrong_key_and_the_engines_key_are_rejected(processes: TwoProcesses, key: str) -> None:
    assert (await list_tools(processes.mcp.url, Authorization=f"Bearer {key}")).status_code == 401


@pytest.mark.requirement("004.auth.disabled")
async def test_without_a_configured_key_every_caller_is_accepted(processes: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, processes.proxy.url, KB_MCP_API_KEY="") as mcp:
        async with open_agent(mcp.url, processes, key=None) as agent:
            assert "version" in await agent.call("kb_status")


async def test_another_host_name_is_accepted_only_if_it_is_listed(processes: TwoProcesses, tmp_path: Path) -> None:
    key = {"Authorization": f"Bearer {MCP_KEY}"}
    assert (await list_tools(processes.mcp.url, Host="kb.example", **key)).status_code == 403
    with run_mcp_server(tmp_path, processes.proxy.url, KB_MCP_ALLOWED_HOSTS="kb.example") as mcp:
        assert (await list_tools(mcp.url, Host="kb.example", **key)).status_code == 200
        assert (await list_tools(mcp.url, Host="other.example", **key)).status_code == 403
