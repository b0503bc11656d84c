"""Runs every configuration and example of `docs/how-to/connect-your-agent.md`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-your-agent.md"
ADDRESS = "http://127.0.0.1:8000"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEY = "YOUR-KEY"
ADD_COMMAND = re.compile(r"(claude|codex|gemini|qwen) mcp add ")
TROUBLE = "Failed to connect"
OTHER_PACKAGES = ("mcp.client.streamable_http import streamablehttp_client", "langchain_mcp_adapters", "agents.mcp")
"""Imports of Python examples that `tests/clients/test_guide.py` runs with other packages."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One server in the configuration of a client."""

    where: str
    url: str | None = None
    command: str | None = None
    arguments: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.where.replace(" ", "-")


def blocks() -> Iterator[tuple[str, str, str]]:
    """Yield heading, language and text of every code block of the page."""
    heading, begin = "", 0
    page = PAGE.read_text("utf-8")
    for found in BLOCK.finditer(page):
        for title in re.finditer(r"^## (.*)$", page[begin : found.start()], re.MULTILINE):
            heading = title.group(1)
        begin = found.end()
        yield heading, found.group(1), found.group(2)


def entries() -> Iterator[Entry]:
    for heading, language, text in blocks():
        if language in ("json", "toml"):
            parsed: dict[str, Any] = json.loads(text) if language == "json" else tomllib.loads(text)
            [(_, servers)] = parsed.items()
            for server in servers.values():
                yield from_configuration(heading, server)
        elif ADD_COMMAND.match(text):
            yield from_command_line(heading, shlex.split(text))


def from_configuration(heading: str, server: dict[str, Any]) -> Entry:
    """Read an entry; Gemini CLI and Qwen Code have `httpUrl`, opencode has the arguments in `command`."""
    command = server.get("command")
    command, *first = command if isinstance(command, list) else [command]
    headers = server.get("headers", {})
    if "bearer_token_env_var" in server:
        headers = {"Authorization": f"Bearer {KEY}"}
    return Entry(
        heading, server.get("url", server.get("httpUrl")), command, (*first, *server.get("args", ())), headers,
        server.get("env", {}),
    )  # fmt: skip


def from_command_line(heading: str, words: list[str]) -> Entry:
    if "--" in words:
        command, *arguments = words[words.index("--") + 1 :]
        return Entry(heading, None, command, tuple(arguments))
    url = next(word for word in words if word.startswith("http://"))
    headers = {}
    if "--header" in words:
        name, _, value = words[words.index("--header") + 1].partition(": ")
        headers[name] = value
    return Entry(heading, url, headers=headers)


SHARED = "As one of several people"
"""Heading of the section about accounts; the other sections need none."""
ENTRIES = [entry for entry in entries() if entry.where != SHARED]
FOR_ACCOUNTS = [entry for entry in entries() if entry.where == SHARED]
ACCOUNT_KEY = "YOUR-ACCOUNT-KEY"
MANAGER = ["query_knowledge", "query_corpus", "list_collections", "list_corpuses"]


@contextlib.contextmanager
def server(data: Path, **environment: str) -> Iterator[str]:
    """Run `knowledge serve` as a process and yield its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "knowledge", "serve", "--port", "0", "--data", str(data)],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "KNOWLEDGE_EMBEDDING": "none", **environment},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        found = None
        while found is None and (line := process.stderr.readline()):
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, "the server did not log its address"
        yield found.group(0)
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("open")) as url:
        yield url


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("locked"), KB_MCP_API_KEY=KEY) as url:
        yield url


def test_the_page_knows_every_client() -> None:
    assert {entry.where for entry in ENTRIES} >= {
        "Claude Code", "Claude Desktop", "VS Code", "Cursor", "Codex", "Gemini CLI", "Qwen Code", "opencode"
    }  # fmt: skip
    examples = {heading for heading, language, _ in blocks() if language in ("python", "js")}
    assert examples == {"Python SDK", "TypeScript SDK", "LangChain", "OpenAI Agents SDK"}


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.url], ids=lambda entry: entry.name)
async def test_an_address_of_the_page_answers(entry: Entry, address: str, locked: str) -> None:
    assert entry.url is not None
    url = entry.url.replace(ADDRESS, locked if entry.headers else address)
    async with (
        httpx2.AsyncClient(headers=entry.headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        assert "knowledge-add" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.command], ids=lambda entry: entry.name)
async def test_a_command_of_the_page_starts_a_server(entry: Entry, tmp_path: Path) -> None:
    assert entry.command is not None
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": search, "KNOWLEDGE_DATA": str(tmp_path), "KNOWLEDGE_EMBEDDING": "none"}
    started = StdioServerParameters(command=entry.command, args=list(entry.arguments), env=environment)
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(started, errlog=log)) as client:
            assert "knowledge-add" in [tool.name for tool in (await client.list_tools()).tools]


def test_the_python_example_of_the_page_runs(address: str) -> None:
    [script] = [
        text for _, language, text in blocks()
        if language == "python" and not any(other in text for other in OTHER_PACKAGES)
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script.replace(ADDRESS, address)], capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    assert "'success': True" in done.stdout


def test_the_curl_examples_of_the_page_run(address: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    lines = [text for heading, _, text in blocks() if text.startswith("curl") and heading not in (SHARED, TROUBLE)]
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line.replace("\\\n", " ").replace(ADDRESS, address))
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        result = json.loads(done.stdout)["result"]
        assert result["isError"] is False and result["structuredContent"]


@pytest.mark.parametrize(
    ("status", "path", "headers", "has_key"),
    [
        (200, "/mcp", {}, False), (404, "/mpc", {}, False), (403, "/mcp", {"Host": "knowledge.example"}, False),
        (403, "/mcp", {"Origin": "http://pages.example"}, False), (401, "/mcp", {}, True),
        (401, "/mcp", {"Authorization": "Bearer wrong"}, True),
    ],
)  # fmt: skip
def test_the_page_explains_the_answers_of_a_server_that_a_client_cannot_connect_to(
    status: int, path: str, headers: dict[str, str], has_key: bool, address: str, locked: str
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    [line] = [text for heading, _, text in blocks() if heading == TROUBLE and text.startswith("curl")]
    url = locked if has_key else address
    words = shlex.split(line.replace(f"{ADDRESS}/mcp", f"{url}{path}"))
    options = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    done = subprocess.run([*words, *options], capture_output=True, text=True, timeout=60, check=True).stdout
    assert done.startswith(f"HTTP/1.1 {status} ")
    rows = re.findall(rf"^\| {status} (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    quoted = [phrase for row in rows for phrase in re.findall(r"`(.*?)`", row)]
    assert any(all(part in done for part in phrase.split("…")) for phrase in quoted), done


def test_the_page_tries_a_command_over_stdio_as_a_shell_does(tmp_path: Path) -> None:
    [lines] = [text for heading, _, text in blocks() if heading == TROUBLE and text.startswith("command -v")]
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": search, "KNOWLEDGE_DATA": str(tmp_path), "KNOWLEDGE_EMBEDDING": "none"}
    done = subprocess.run(
        ["sh", "-euc", lines], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    found, answer = done.stdout.splitlines()
    assert Path(found).name == "knowledge"
    [row] = re.findall(r'^\| `(\{"jsonrpc".*?)…` \|', PAGE.read_text("utf-8"), re.MULTILINE)
    assert answer.startswith(row)


# -- with an account ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, str]]:
    """The URL of a server, its data folder, and the key of an account made by the commands of the page."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    folder = tmp_path_factory.mktemp("shared")
    [commands] = [text for heading, _, text in blocks() if heading == SHARED and text.startswith("curl")]
    with server(folder) as url:
        until_healthy(url)
        done = subprocess.run(
            ["bash", "-euc", commands.replace(ADDRESS, url)], capture_output=True, text=True, timeout=60, check=True
        )
        answers, place = [], 0
        while place < len(done.stdout):
            answer, place = json.JSONDecoder().raw_decode(done.stdout, place)
            answers.append(answer)
        yield url, folder, answers[-1]["api_key"]


def until_healthy(url: str) -> None:
    """Wait for the engine, which starts after the socket is open."""
    with httpx2.Client(base_url=url, timeout=30) as http:
        while http.get("/health").status_code != 200:
            time.sleep(0.05)


@pytest.mark.requirement("001.examples.remote")
@pytest.mark.parametrize("entry", [entry for entry in FOR_ACCOUNTS if entry.url], ids=["command", "file"])
async def test_an_account_reaches_its_tools_by_the_address_of_the_page(
    entry: Entry, shared: tuple[str, Path, str]
) -> None:
    url, _, key = shared
    assert entry.url is not None
    headers = {name: value.replace(ACCOUNT_KEY, key) for name, value in entry.headers.items()}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(entry.url.replace(ADDRESS, url), http_client=http)) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == MANAGER
        assert (await client.call_tool("list_collections", {})).is_error is False


@pytest.mark.requirement("001.examples.claude_desktop")
async def test_an_account_is_served_over_stdio_as_the_page_says(
    shared: tuple[str, Path, str], tmp_path: Path
) -> None:  # fmt: skip
    _, folder, key = shared
    [entry] = [entry for entry in FOR_ACCOUNTS if entry.command]
    given = {name: value.replace(ACCOUNT_KEY, key) for name, value in entry.environment.items()}
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": search, "KNOWLEDGE_DATA": str(folder), "KNOWLEDGE_EMBEDDING": "none", **given}
    started = StdioServerParameters(command=str(entry.command), args=list(entry.arguments), env=environment)
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(started, errlog=log)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == MANAGER
            assert (await client.call_tool("list_collections", {})).is_error is False
