"""Contract 003: the two clients that it shows, against real processes; and what the first answer costs."""

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
    """A configuration and a data folder of its own, and no model to wait for."""
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
def listening(command: list[str], environment: dict[str, str]) -> Iterator[str]:
    """A server process; gives the address that it says it listens on."""
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
    with listening(command, environment) as address:
        assert address.endswith("/mcp")
        async with Client(address) as client:
            result: Any = await client.call_tool("sage_get_knowledge", {"layer": "core"})
            assert result.structured_content["content"].count("\n# ") == 1
            results: Any = await client.call_tool("sage_search", {"query": "deadline", "limit": 5})
            assert results.structured_content["results"][0]["title"] == "Timeout Patterns"


def spent() -> float:
    """The CPU seconds of all child processes that have ended."""
    if sys.platform == "win32":
        pytest.skip("this system does not tell what a child process cost")
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def first_answer() -> tuple[float, Body]:
    """The CPU seconds of a `sage serve` that answers once and ends."""
    before = spent()
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
    return spent() - before, answer


def import_of_the_sdk() -> float:
    before = spent()
    subprocess.run([sys.executable, "-c", "import mcp"], check=True)
    return spent() - before


@pytest.mark.requirement("003.serve.start")
def test_the_first_answer_costs_little_more_than_importing_the_sdk() -> None:
    import_of_the_sdk()  # once for the disk
    ours, theirs = [], []
    for _ in range(3):  # in turn, so that a busy machine slows both
        seconds, answer = first_answer()
        assert answer["result"]["structuredContent"]["metadata"]["files_loaded"] == 4
        ours.append(seconds)
        theirs.append(import_of_the_sdk())
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
