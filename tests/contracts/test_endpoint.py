"""The MCP endpoint: visible tools, errors, authentication, size limits, restarts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.errors import InvalidParameter
from knowledge.model import Json
from knowledge.surfaces.mcp.toolset_selection import ToolsetSelection
from knowledge.toolsets.base import Registry, ToolCall, ToolResult, Toolset
from knowledge.toolsets.knowledge import tools as knowledge_tools
from knowledge.toolsets.knowledge.errors import refuse
from tests.contracts.app_server import make_app, serve_app
from tests.contracts.transports import WAIT_SECONDS

READ_ONLY = ["knowledge-search", "knowledge-show", "knowledge-status", "knowledge-task-status"]
ACCEPT_BOTH = "application/json, text/event-stream"


def other_tools() -> Toolset:
    """A small second toolset."""
    tools = Toolset(name="other", format_error=refuse, flat=True)

    async def look(call: ToolCall) -> Json:
        """Look at something"""
        return {"seen": True}

    async def change(call: ToolCall) -> Json:
        """Change something"""
        raise RuntimeError("a secret that nobody should read")

    async def decline(call: ToolCall) -> ToolResult:
        """Refuse on the JSON-RPC plane"""
        from knowledge.toolsets.base import Refusal

        return Refusal({"message": "Query cannot be empty"}, code="validation.empty_query", status=422)

    for function in (look, change, decline):
        function.__annotations__ = {"call": ToolCall, "return": Any}
    tools.tool("other_look", read_only=True)(look)
    tools.tool("other_change")(change)
    tools.tool("other_refuse", read_only=True)(decline)
    return tools


def make_two_toolsets() -> Registry:
    return Registry([knowledge_tools.tools, other_tools()])


async def list_tool_names(http: httpx.AsyncClient, path: str = "/mcp", **headers: str) -> list[str]:
    answer = await http.post(path, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)
    assert answer.status_code == 200, answer.text
    return [tool["name"] for tool in answer.json()["result"]["tools"]]


async def call_tool(http: httpx.AsyncClient, tool: str, path: str = "/mcp", **headers: str) -> httpx.Response:
    params = {"name": tool, "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await http.post(path, json=message, headers=headers)


# -- visible tools -------------------------------------------------------------------------------


async def test_the_path_and_the_headers_choose_among_the_toolsets(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    app = make_app(local, settings, tmp_path, tools=make_two_toolsets())
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        seven = await list_tool_names(http)
        assert len(seven) == 7 and all(name.startswith("knowledge-") for name in seven)
        assert await list_tool_names(http, "/mcp/knowledge") == await list_tool_names(http, "/mcp/knowledge/") == seven
        others = ["other_look", "other_change", "other_refuse"]
        assert await list_tool_names(http, "/mcp/other") == others
        assert await list_tool_names(http, "/mcp/other/readonly") == ["other_look", "other_refuse"]
        assert await list_tool_names(http, "/mcp/readonly") == READ_ONLY
        assert await list_tool_names(http, **{"X-MCP-Toolsets": "other"}) == others
        assert await list_tool_names(http, **{"X-MCP-Toolsets": "other, knowledge"}) == [*seven, *others]
        assert await list_tool_names(http, **{"X-MCP-Toolsets": "all"}) == [*seven, *others]
        assert await list_tool_names(http, **{"X-MCP-Toolsets": "nobody"}) == []
        assert await list_tool_names(http, "/mcp/other", **{"X-MCP-Toolsets": "knowledge"}) == others
        assert await list_tool_names(http, **{"X-MCP-Readonly": "true"}) == READ_ONLY
        assert await list_tool_names(http, "/mcp/readonly", **{"X-MCP-Readonly": "false"}) == READ_ONLY
        assert (await call_tool(http, "x", "/mcp/nobody")).status_code == 404


async def test_a_request_can_only_narrow_what_the_operator_allowed(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    allowed = settings.model_copy(update={"toolsets": "other"})
    app = make_app(local, allowed, tmp_path, tools=make_two_toolsets())
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        assert len(await list_tool_names(http)) == 3
        assert len(await list_tool_names(http, **{"X-MCP-Toolsets": "all"})) == 3
        assert await list_tool_names(http, **{"X-MCP-Toolsets": "knowledge"}) == []
        assert (await call_tool(http, "x", "/mcp/knowledge")).status_code == 404
        answer = (await call_tool(http, "knowledge-status", **{"X-MCP-Toolsets": "knowledge"})).json()
        assert answer["error"]["data"]["error_type"] == "unknown_tool"
        cancel = {"jsonrpc": "2.0", "id": 1, "method": "tools/cancel", "params": {"taskId": "1"}}
        assert (await http.post("/mcp", json=cancel)).json()["error"]["code"] == -32601


async def test_a_read_only_caller_cannot_call_what_it_does_not_see(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    app = make_app(local, settings, tmp_path, tools=make_two_toolsets())
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        answer = (await call_tool(http, "knowledge-clear", "/mcp/readonly")).json()
        assert answer["error"]["code"] == -32602
        async with Client(streamable_http_client(f"{url}/mcp/readonly")) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == READ_ONLY
            with pytest.raises(MCPError):
                await client.call_tool("knowledge-clear", {"confirm": True, "confirmation_phrase": "DELETE ALL"})


@pytest.mark.requirement("mcp.addresses.second")
async def test_a_toolset_has_a_second_address(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        for name in ("knowledge", "manager", "rag", "sage", "kb", "connector"):
            wanted = await list_tool_names(http, f"/mcp/{name}")
            assert await list_tool_names(http, f"/{name}/mcp") == await list_tool_names(http, f"/{name}/mcp/") == wanted
        assert await list_tool_names(http, "/knowledge/mcp/readonly") == READ_ONLY
        assert await list_tool_names(http, "/sage/mcp", **{"X-MCP-Toolsets": "kb"}) == await list_tool_names(
            http, "/mcp/sage"
        )
        refused = await call_tool(http, "x", "/nobody/mcp")
        assert (refused.status_code, refused.json()["error"]["data"]["details"]) == (404, {"toolset": "nobody"})
        async with Client(streamable_http_client(f"{url}/sage/mcp")) as client:
            assert (await client.list_tools()).tools[0].name == "sage_get_knowledge"
        async with websockets.connect(f"{url.replace('http', 'ws', 1)}/kb/mcp"):
            pass


@pytest.mark.requirement("mcp.addresses.second")
async def test_the_second_address_needs_the_same_key(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    locked = settings.model_copy(update={"mcp_api_key": SecretStr("opensesame"), "api_key": SecretStr("rest-only")})
    async with serve_app(make_app(local, locked, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        for path in ("/kb/mcp", "/kb/mcp/", "/kb/mcp/readonly", "/api/mcp", "/kb/mcp%0A", "/sse"):
            for head in ({}, {"authorization": "Bearer rest-only"}):
                answer = await call_tool(http, "kb_status", path, **head)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, 401), path
        answer = await call_tool(http, "kb_status", "/kb/mcp", authorization="Bearer opensesame")
        assert answer.json()["result"]["isError"] is False


@pytest.mark.requirement("mcp.addresses.legacy_sse")
async def test_a_client_of_the_older_sse_transport_is_told_the_right_address(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    wants_events = {"accept": "text/event-stream"}
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        for path in ("/mcp", "/mcp/kb", "/kb/mcp"):
            answer = await http.get(path, headers=wants_events)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            assert answer.json()["error"]["message"].endswith(f"use Streamable HTTP at {url}{path}")
        for path in ("/sse", "/sse/", "/mcp/sse"):
            for method in ("GET", "POST"):
                answer = await http.request(method, path, headers=wants_events)
                assert answer.status_code == 404
                error = answer.json()["error"]
                assert error["message"].endswith(f"use Streamable HTTP at {url}/mcp")
                assert "streamable-http" in error["data"]["hint"]


def test_an_unknown_toolset_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidParameter) as caught:
        ToolsetSelection.from_setting("knowledge,nobody", ["knowledge", "other"])
    assert "nobody" in str(caught.value)
    assert "knowledge, other" in caught.value.hint


# -- answers and errors -------------------------------------------------------------------------


async def test_a_crash_inside_a_tool_is_an_internal_error_that_shows_nothing(
    local: LocalEngine, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(local, settings, tmp_path, tools=make_two_toolsets())
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await call_tool(http, "other_change", "/mcp/other")
    result = answer.json()["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["error"] == "internal_error"
    assert "secret" not in answer.text
    assert "secret" in caplog.text


async def test_a_flat_contract_answers_plain_callers_at_the_top_of_the_result(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    app = make_app(local, settings, tmp_path, tools=make_two_toolsets())
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        result = (await call_tool(http, "other_look", "/mcp/other")).json()["result"]
    assert result["seen"] is True
    assert json.loads(result["content"][0]["text"]) == {"seen": True}


async def test_a_contract_may_refuse_plain_callers_by_a_json_rpc_error(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    app = make_app(local, settings, tmp_path, tools=make_two_toolsets())
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await call_tool(http, "other_refuse", "/mcp/other")
        assert answer.status_code == 422
        assert answer.headers["x-mcp-error-code"] == "validation.empty_query"
        error = answer.json()["error"]
        assert (error["code"], error["message"]) == (422, "Query cannot be empty")
        assert error["data"]["http_status"] == 422
        async with Client(streamable_http_client(f"{url}/mcp/other")) as client:
            result = await client.call_tool("other_refuse", {})
        assert result.is_error
        assert result.structured_content == {
            "message": "Query cannot be empty", "code": "validation.empty_query", "http_status": 422, "details": {},
        }  # fmt: skip


@pytest.mark.requirement("mcp.refusals.unknown_tool")
async def test_an_unknown_tool_is_answered_with_the_valid_names(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    app = make_app(local, settings, tmp_path, tools=make_two_toolsets())
    async with serve_app(app) as url, httpx.AsyncClient(base_url=url) as http:
        error = (await call_tool(http, "other_loook", "/mcp/other")).json()["error"]
        valid = "other_look, other_change, other_refuse"
        assert error["message"] == f"Unknown tool: other_loook (did you mean 'other_look'?). Valid tools: {valid}"
        assert (error["code"], error["data"]["error_type"]) == (-32602, "unknown_tool")
        error = (await call_tool(http, "search", "/mcp/other/readonly")).json()["error"]
        assert error["message"] == "Unknown tool: search. Valid tools: other_look, other_refuse"


# -- authentication and origins -----------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/mcp/knowledge", "/mcp/readonly"])
async def test_other_origins_and_host_names_are_rejected(
    path: str, local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    modern = {"mcp-protocol-version": "2026-07-28", "accept": ACCEPT_BOTH}
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        for bad in ({"origin": "http://evil.example"}, {"host": "evil.example"}, {"origin": "null"}):
            for more in ({}, modern, {"mcp-session-id": "x", "accept": ACCEPT_BOTH}):
                answer = await http.post(path, json=ping, headers={**bad, **more})
                assert answer.status_code == 403
                assert answer.json()["id"] == 7
        assert (await http.post(path, json=ping, headers={"origin": url})).status_code == 200
        address = f"{url.replace('http', 'ws', 1)}{path}"
        with pytest.raises(websockets.InvalidStatus):
            await websockets.connect(address, origin=websockets.Origin("http://evil.example"))
        async with websockets.connect(address, origin=websockets.Origin(url)):
            pass


def encode_headers(headers: dict[str, str]) -> httpx.Headers:
    """Headers as bytes, for those that are not ASCII."""
    return httpx.Headers([(name.encode(), value.encode("latin-1")) for name, value in headers.items()])


async def test_a_key_is_required_on_every_transport(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    locked = settings.model_copy(update={"mcp_api_key": SecretStr("opensesame")})
    async with serve_app(make_app(local, locked, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        for head in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}, {"x-api-key": "ünï"}):
            answer = await http.post("/mcp", json=ping, headers=encode_headers(head))
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["x-mcp-error-code"] == ("invalid_key" if head else "missing_key")
            assert (answer.json()["id"], answer.json()["error"]["code"]) == (7, 401)
        for head in ({"authorization": "Bearer opensesame"}, {"x-api-key": "opensesame"}):
            assert (await http.post("/mcp", json=ping, headers=head)).json()["result"] == {}
        address = f"{url.replace('http', 'ws', 1)}/mcp"
        with pytest.raises(websockets.InvalidStatus):
            await websockets.connect(address)
        async with websockets.connect(address, additional_headers={"authorization": "Bearer opensesame"}):
            pass


async def test_no_oauth_is_promised(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        for name in ("oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server"):
            assert (await http.get(f"/.well-known/{name}")).status_code == 404


# -- sizes and headers --------------------------------------------------------------------------


async def test_a_body_over_four_mebibytes_is_refused_before_it_is_read(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url:
        for leg in ("", "mcp-protocol-version: 2026-07-28\r\n", "mcp-session-id: x\r\n"):
            host, port = url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"POST /mcp HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
            writer.write(f"{head}content-length: {(4 << 20) + 1}\r\n{leg}\r\n".encode())
            status = await asyncio.wait_for(reader.readline(), WAIT_SECONDS)  # not one byte of the body was sent
            assert b" 413 " in status
            writer.close()


async def open_session(http: httpx.AsyncClient) -> str:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
    opened = await http.post("/mcp", json=message, headers={"accept": ACCEPT_BOTH})
    return str(opened.headers["mcp-session-id"])


async def test_a_body_without_a_length_is_cut_off_at_four_mebibytes(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    async def endless() -> Any:
        for _ in range(6):
            yield b" " * (1 << 20)

    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        session = await open_session(http)
        for leg in ({}, {"mcp-protocol-version": "2026-07-28"}, {"mcp-session-id": session}):
            answer = await http.post("/mcp", content=endless(), headers={"content-type": "application/json", **leg})
            assert answer.status_code == 413
            assert "error" in answer.json()


async def test_blanks_around_header_values_do_not_matter(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "knowledge-status", "_meta": meta}}
    content = json.dumps(body).encode()
    async with serve_app(make_app(local, settings, tmp_path)) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [
            "POST /mcp HTTP/1.1", f"host: {host}:{port}", "content-type: application/json", f"accept: {ACCEPT_BOTH}",
            "mcp-protocol-version:   2026-07-28 \t", "mcp-method: tools/call  ", "mcp-name: \tknowledge-status   ",
            f"content-length: {len(content)}", "connection: close", "", "",
        ]  # fmt: skip
        writer.write("\r\n".join(lines).encode() + content)
        answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
        writer.close()
    assert b" 200 " in answer.splitlines()[0]
    assert b'"success":true' in answer.replace(b'\\"', b'"')


META: Json = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
NAMED = {
    "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "knowledge-show",
    "accept": ACCEPT_BOTH, "content-type": "application/json",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "headers", "status", "code"),
    [
        ({}, {}, 200, None),
        ({"id": None}, {}, 400, -32600),
        ({"jsonrpc": "1.0"}, {}, 400, -32600),
        ({"method": "tools/list"}, {}, 400, -32020),
        ({"params": {"name": "knowledge-status", "_meta": META}}, {}, 400, -32020),
        ({"params": {"name": "knowledge-show"}}, {}, 400, -32602),
        ({"params": {"name": "knowledge-show", "arguments": 3, "_meta": META}}, {}, 400, -32602),
        ({}, {"accept": "application/json"}, 406, -32600),
        ({}, {"content-type": "text/plain"}, 400, -32600),
    ],
)
async def test_a_read_only_call_of_the_stateless_protocol_is_validated_like_any_other(
    change: Json, headers: dict[str, str], status: int, code: int | None,
    local: LocalEngine, settings: Settings, tmp_path: Path,
) -> None:  # fmt: skip
    params: Json = {"name": "knowledge-show", "arguments": {}, "_meta": {**META}}
    message: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, **change}
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.post("/mcp", content=json.dumps(message), headers={**NAMED, **headers})
    assert answer.status_code == status, answer.text
    assert answer.json().get("error", {}).get("code") == code
    if code is None:
        assert answer.json()["result"]["resultType"] == "complete"
        assert "io.modelcontextprotocol/serverInfo" in answer.json()["result"]["_meta"]


async def test_a_routing_header_that_is_given_twice_is_refused(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    params: Json = {"name": "knowledge-show", "_meta": {**META}}
    message: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    twice = [*NAMED.items(), ("mcp-name", "knowledge-show")]
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.post("/mcp", content=json.dumps(message), headers=twice)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


# -- restarts and concurrency -------------------------------------------------------------------


async def test_a_restart_is_survived(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url:
        port = int(url.rsplit(":", 1)[1])
        async with httpx.AsyncClient(base_url=url) as http:
            session = await open_session(http)
        modern = streamable_http_client(f"{url}/mcp")
    async with serve_app(make_app(local, settings, tmp_path), port) as url:
        async with httpx.AsyncClient(base_url=url, headers={"accept": ACCEPT_BOTH}) as http:
            again = await http.post(
                "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers={"mcp-session-id": session}
            )
            assert again.status_code == 200
        async with Client(modern) as client:
            assert len((await client.list_tools()).tools) == 7


async def test_a_modern_client_does_not_notice_a_restart(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    """The client stays connected while another server process takes over the port."""
    ready, restarted = asyncio.Event(), asyncio.Event()
    port = 0

    async def serve_twice() -> None:
        nonlocal port
        async with serve_app(make_app(local, settings, tmp_path)) as url:
            port = int(url.rsplit(":", 1)[1])
            ready.set()
            await first_done.wait()
        async with serve_app(make_app(local, settings, tmp_path), port):
            restarted.set()
            await second_done.wait()

    first_done, second_done = asyncio.Event(), asyncio.Event()
    server = asyncio.create_task(serve_twice())
    await ready.wait()
    async with Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp")) as client:
        assert (await client.call_tool("knowledge-status", {})).is_error is False
        first_done.set()
        await restarted.wait()
        assert (await client.call_tool("knowledge-status", {})).is_error is False
    second_done.set()
    await server


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_ten_clients_at_once_are_served_alike(
    mode: str, local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    together = asyncio.Barrier(10)

    async def one(url: str) -> int:
        async with Client(
            streamable_http_client(f"{url}/mcp"), mode="legacy" if mode == "legacy" else "auto"
        ) as client:
            await together.wait()
            answers = [await client.call_tool("knowledge-status", {}) for _ in range(3)]
            assert not any(answer.is_error for answer in answers)
            return len((await client.list_tools()).tools)

    async with serve_app(make_app(local, settings, tmp_path)) as url:
        assert await asyncio.gather(*(one(url) for _ in range(10))) == [7] * 10


async def test_a_session_belongs_to_the_key_that_opened_it(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    locked = settings.model_copy(update={"mcp_api_key": SecretStr("opensesame")})
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
    async with serve_app(make_app(local, locked, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        hello = await http.post("/mcp", json=message, headers={"accept": ACCEPT_BOTH, "x-api-key": "opensesame"})
        session = hello.headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        with_session = {"accept": ACCEPT_BOTH, "mcp-session-id": session}
        assert (await http.post("/mcp", json=listing, headers=with_session)).status_code == 401
        mine = await http.post("/mcp", json=listing, headers={**with_session, "x-api-key": "opensesame"})
        assert mine.status_code == 200
