"""Fuzzing: the server answers any input to any tool over any transport, and keeps running."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from websockets.sync.client import connect

from knowledge.config import Settings
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers, make_test_engine
from knowledge.toolsets import make_registry
from knowledge.toolsets.base import Tool
from tests.contracts.app_server import serve_app_in_thread
from tests.contracts.transports import WAIT_SECONDS, StdioTransport

TOOLS = list(make_registry().by_name.values())
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
MODERN = {"mcp-protocol-version": "2026-07-28", "accept": "application/json, text/event-stream"}

texts = some.text(some.characters(codec=None, categories=None), max_size=40)
"""Any text, including lone surrogates and NUL."""
odd = some.sampled_from(
    ["", " ", "\x00", "\ud800", "../../etc/passwd", "/dev/zero.md", "~", "a" * 5000, "💥", "-1", "NaN", "1e999", "null"]
)
numbers = some.integers() | some.floats() | some.sampled_from([2**63, -(2**63) - 1, 10**400, 1e308, -0.0])
scalars = some.none() | some.booleans() | numbers | texts | odd
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(texts | odd, inner, max_size=4),
    max_leaves=12,
)
lines = texts.map(lambda text: " ".join(text.encode("utf-8", "replace").decode().split()))
"""Any single line of text that can be encoded as UTF-8."""
EXAMPLES = int(os.environ.get("EXAMPLES", "40"))
few = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None,
    derandomize="EXAMPLES" not in os.environ,
)  # fmt: skip


@pytest.fixture(scope="module")
def url(parsers: SharedParsers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the whole application."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "good.md").write_text("The kettle is in the kitchen")
    chosen = Settings(data=folder / "data", workers=1, files=str(folder), max_file_mb=1, wait_s=2)
    engine = make_test_engine(chosen, parsers=parsers)
    engine.start()
    with serve_app_in_thread(make_http_app(engine, chosen)) as address:
        yield address
    engine.close()


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=WAIT_SECONDS) as client:
        yield client


def alive(http: httpx.Client) -> None:
    answer = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert answer.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def post(http: httpx.Client, message: Any, path: str = "/mcp", **headers: str) -> httpx.Response:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    answer = http.post(path, content=body, headers={"content-type": "application/json", **headers})
    assert answer.status_code < 500, answer.text
    return answer


def arguments_for(tool: Tool) -> some.SearchStrategy[dict[str, Any]]:
    """Arguments with any value, mostly under the tool's parameter names."""
    properties = tool.schema["properties"]
    assert isinstance(properties, dict)
    known = some.sampled_from(sorted(properties)) if properties else texts
    return some.dictionaries(known | texts, values, max_size=5)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_any_arguments_of_a_tool_are_answered_in_its_contracts_words(tool: Tool, http: httpx.Client) -> None:
    @few
    @given(arguments=arguments_for(tool))
    def attempt(arguments: dict[str, Any]) -> None:
        params = {"name": tool.name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answered = [post(http, message, f"/mcp/{tool.toolset}").json()]
        modern = {**message, "params": {**params, "_meta": META}}
        named = {"mcp-method": "tools/call", "mcp-name": tool.name}
        answered.append(post(http, modern, f"/mcp/{tool.toolset}", **MODERN, **named).json())
        for answer in answered:
            if "error" in answer:
                assert answer["error"]["code"] in (-32700, -32602) or 400 <= answer["error"]["code"] < 500
                continue
            body = answer["result"]["structuredContent"]
            assert json.loads(answer["result"]["content"][0]["text"]) == body
            assert "internal" not in json.dumps(body.get("error", "")).lower(), (arguments, body)

    attempt()
    alive(http)


def requests() -> some.SearchStrategy[Any]:
    """Almost valid messages, and JSON that is no message."""
    methods = some.sampled_from(
        [
            "initialize", "ping", "tools/list", "tools/call", "tools/cancel", "resources/read", "prompts/get",
            "notifications/cancelled", "notifications/initialized", "server/discover", "completion/complete",
        ]
    )  # fmt: skip
    message = some.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": some.just("2.0") | scalars,
            "id": some.integers() | values,
            "method": methods | values,
            "params": values | some.dictionaries(some.sampled_from(["name", "arguments", "_meta", "uri"]), values),
            "result": values,
        },
    )
    return message | values | some.lists(message, max_size=3)


@pytest.mark.parametrize(
    "headers",
    [{}, MODERN, {**MODERN, "mcp-method": "tools/call", "mcp-name": "knowledge-status"}, {"mcp-session-id": "none"}],
    ids=["plain", "modern", "named", "session"],
)
def test_any_json_over_http_is_answered(headers: dict[str, str], http: httpx.Client) -> None:
    @few
    @given(message=requests())
    def attempt(message: Any) -> None:
        answer = post(http, message, **headers)
        assert answer.status_code == 202 or "jsonrpc" in answer.json()

    attempt()
    alive(http)


def test_any_json_within_a_session_is_answered(http: httpx.Client) -> None:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    accept = {"accept": "application/json, text/event-stream"}
    hello = post(http, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}, **accept)
    session = {**accept, "mcp-session-id": hello.headers["mcp-session-id"]}
    post(http, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)

    @few
    @given(message=requests())
    def attempt(message: Any) -> None:
        answer = post(http, message, **session)
        assert answer.status_code == 202 or "jsonrpc" in answer.text

    attempt()
    listed = post(http, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, **session)
    assert "knowledge-add" in listed.text


@pytest.mark.parametrize("headers", [{}, MODERN], ids=["plain", "modern"])
def test_any_bytes_over_http_are_answered(headers: dict[str, str], http: httpx.Client) -> None:
    @few
    @given(body=some.binary(max_size=200))
    def attempt(body: bytes) -> None:
        answer = post(http, body, **headers)
        assert answer.status_code == 202 or "error" in answer.json()

    attempt()
    alive(http)


def test_any_json_over_a_websocket_leaves_it_open(url: str) -> None:
    with connect(f"{url.replace('http', 'ws', 1)}/mcp", open_timeout=WAIT_SECONDS) as socket:
        socket.send(json.dumps({"jsonrpc": "2.0", "id": "first", "method": "ping"}))

        @few
        @given(message=requests() | lines)
        def attempt(message: Any) -> None:
            socket.send(message if isinstance(message, str) else json.dumps(message))
            mark = os.urandom(8).hex()
            socket.send(json.dumps({"jsonrpc": "2.0", "id": mark, "method": "ping"}))
            while json.loads(socket.recv(timeout=WAIT_SECONDS)).get("id") != mark:
                pass

        attempt()


def test_any_json_over_stdio_leaves_the_process_alive(tmp_path_factory: pytest.TempPathFactory) -> None:
    data: Path = tmp_path_factory.mktemp("process")
    process = StdioTransport(data, KNOWLEDGE_EMBEDDING="none", KNOWLEDGE_FILES=str(data), KNOWLEDGE_WAIT_S="1")
    try:
        assert process.request("ping")["result"] == {}

        @few
        @given(message=requests() | lines)
        def attempt(message: Any) -> None:
            process.write(message if isinstance(message, str) else json.dumps(message))
            assert process.request("ping")["result"] == {}

        attempt()
    finally:
        process.close()
