"""Clients from npm against a real server with OAuth: the TypeScript SDK and mcp-remote."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import platformdirs
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from tests.oauth.test_python_sdk import serve_with_oauth
from tests.support.oauth import LOOPBACK_URI, allow_in_browser, parse_answer

PACKAGES = ("mcp-remote@0.15.1", "@modelcontextprotocol/sdk@1.32.2")
INSTALL_SECONDS, CALL_SECONDS = 240, 120
AUTHORIZE_URL = re.compile(r"http://127\.0\.0\.1:\d+/authorize\?\S+")

pytestmark = pytest.mark.long


@pytest.fixture(scope="session")
def modules() -> Path:
    """The folder node_modules with the clients; skips the test without npm."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm is not installed")
    folder = Path(platformdirs.user_cache_dir("knowledge-server", appauthor=False)) / "oauth-clients"
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode != 0:
        pytest.skip(f"npm could not install the clients: {done.stderr[-300:]}")
    return folder / "node_modules"


@asynccontextmanager
async def run_node(script: Path, *arguments: str, home: Path) -> AsyncIterator[Process]:
    node = shutil.which("node") or "node"
    given = {"HOME": str(home), "MCP_REMOTE_CONFIG_DIR": str(home), "BROWSER": "none", "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        node, str(script), *arguments, stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **given},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def read_line(process: Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), CALL_SECONDS)).decode()


async def test_the_typescript_sdk_registers_refreshes_and_asks_for_more(
    local: LocalEngine, guarded: Settings, modules: Path, tmp_path: Path
) -> None:
    script = modules.parent / "typescript_client.mjs"  # modules are found beside the script
    script.write_text(Path(__file__).with_name("typescript_client.mjs").read_text())
    scopes, events, printed = ["read", "read write"], [], ""
    async with (
        serve_with_oauth(local, guarded) as url,
        run_node(script, f"{url}/mcp/kb", LOOPBACK_URI, home=tmp_path) as process,
    ):
        while line := await read_line(process):
            printed += line
            if not line.startswith("{"):
                continue
            event: dict[str, Any] = json.loads(line)
            events.append(event)
            if event["event"] == "authorize":
                answer = parse_answer(await allow_in_browser(event["url"], scopes.pop(0)))
                assert process.stdin is not None
                process.stdin.write(f"{answer['code']}\n".encode())
    names = [event["event"] for event in events]
    assert names == ["authorize", "tokens", "tools", "tokens", "refreshed", "authorize", "tokens", "added"], printed
    assert [event["scope"] for event in events if event["event"] == "tokens"] == ["read", "read", "read write"]
    assert events[-1]["error"] is False


async def test_mcp_remote_logs_in_and_lists_the_tools(
    local: LocalEngine, guarded: Settings, modules: Path, tmp_path: Path
) -> None:
    printed = ""
    async with (
        serve_with_oauth(local, guarded) as url,
        run_node(modules / "mcp-remote" / "dist" / "client.js", f"{url}/mcp", "--allow-http", home=tmp_path) as process,
    ):
        while "knowledge-search" not in printed:
            line = await read_line(process)
            assert line, printed
            printed += line
            if found := AUTHORIZE_URL.search(line):
                async with httpx.AsyncClient(timeout=CALL_SECONDS) as browser:
                    answer = await browser.get(await allow_in_browser(found[0], "read write"))
                assert answer.status_code == 200, answer.text
