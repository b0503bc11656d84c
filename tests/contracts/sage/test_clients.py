"""Contract 003: the two client examples against real processes, and the cost of the first answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.contracts.sage.content_folder import write_pages
from tests.contracts.transports import Body

SAGE = shutil.which("sage", path=str(Path(sys.executable).parent)) or "sage"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment with a separate configuration and data folder and no embedding model."""
    write_pages(tmp_path / "content")
    config = tmp_path / "config" / "sage.yaml"
    (config.parent / "services").mkdir(parents=True)
    config.write_text("sage:\n  content: ../content\n", "utf-8")
    mcp = "mcp:\n  host: localhost\n  port: 0\n  timeout_ms: 5000\n  max_connections: 10\n"
    (config.parent / "services" / "mcp.yaml").write_text(mcp, "utf-8")
    return {"SAGE_CONFIG": str(config), "KNOWLEDGE_DATA": str(tmp_path / "data"), "KNOWLEDGE_EMBEDDING": "none"}


@pytest.mark.requirement("003.serve.stdio")
async def test_claude_desktops_configuration_starts_the_server(environment: dict[str, str]) -> None:
    written = {"mcpServers": {"sage": {"command": SAGE, "args": ["serve"], "env": environment}}}
    entry = json.loads(json.dumps(written))["mcpServers"]["sage"]
    async with Client(StdioServerParameters(**entry)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "sage_get_knowledge", "sage_search", "sage_get_context", "sage_info",
        ]  # fmt: skip
        result = await client.call_tool("sage_get_knowledge", {"layer": "core"})
        body: Any = result.structured_content
        assert body["metadata"]["files"] == ["content/core/defaults.md", "content/core/principles.md"]


@contextmanager
def run_server(command: list[str], environment: dict[str, str]) -> Iterator[str]:
    """Run a server process and yield the address that it prints."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if "listens on" in line)
        yield line.split()[-1]
    finally:
        process.terminate()
        process.wait(60)
        process.stderr.close()


@pytest.mark.requirement("003.serve.http")
@pytest.mark.parametrize(
    "command",
    [[sys.executable, "-m", "sage.services.mcp_server"], [SAGE, "serve", "--host", "127.0.0.1", "--port", "0"]],
    ids=["module", "command"],
)
async def test_a_generic_client_reaches_it_over_http(environment: dict[str, str], command: list[str]) -> None:
    with run_server(command, environment) as address:
        assert address.endswith("/mcp")
        async with Client(address) as client:
            result: Any = await client.call_tool("sage_get_knowledge", {"layer": "core"})
            assert result.structured_content["content"].count("\n# ") == 1
            results: Any = await client.call_tool("sage_search", {"query": "deadline", "limit": 5})
            assert results.structured_content["results"][0]["title"] == "Timeout Patterns"


def measure_child_cpu() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    if sys.platform == "win32":
        pytest.skip("resource usage of child processes is not available")
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_first_answer() -> tuple[float, Body]:
    """Return the CPU seconds and the answer of a `sage serve` that handles one call."""
    before = measure_child_cpu()
    process = subprocess.Popen(
        [sys.executable, "-m", "sage", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "sage_get_knowledge", "arguments": {"layer": "core"}}
    try:
        for message in (
            {"id": 1, "method": "initialize", "params": client},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": call},
        ):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline()) if message.get("id") else {}
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
    return measure_child_cpu() - before, answer


def measure_sdk_import() -> float:
    before = measure_child_cpu()
    subprocess.run([sys.executable, "-c", "import mcp"], check=True)
    return measure_child_cpu() - before


@pytest.mark.requirement("003.serve.start")
def test_the_first_answer_costs_little_more_than_importing_the_sdk() -> None:
    measure_sdk_import()  # fills the disk cache
    ours, theirs = [], []
    for _ in range(3):  # alternating, so that load on the machine slows both
        seconds, answer = measure_first_answer()
        assert answer["result"]["structuredContent"]["metadata"]["files_loaded"] == 4
        ours.append(seconds)
        theirs.append(measure_sdk_import())
    assert min(ours) / min(theirs) <= 1.5


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import asyncio, sys\n"
        "from knowledge.surfaces.sage import make_missing_engine, open_sage\n"
        "from knowledge.toolsets.sage.configuration import SageConfiguration\n"
        "import knowledge.surfaces.mcp.stdio\n"
        "sage = open_sage(SageConfiguration())\n"
        "asyncio.run(sage.get_knowledge('core', None, 5000))\n"
        "heavy = {'numpy', 'onnxruntime', 'faiss', 'tantivy', 'sqlalchemy', 'tokenizers', 'fastapi', 'Stemmer'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "[]"
