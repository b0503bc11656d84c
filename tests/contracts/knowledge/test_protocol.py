"""Contract 000: registration, versions, errors and transports."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
import websockets

from tests.contracts.knowledge.conftest import Product
from tests.contracts.transports import (
    WAIT_SECONDS,
    Body,
    PlainTransport,
    StdioTransport,
    WebSocketTransport,
    open_sdk_transport,
)

TOOLS = [
    "knowledge-add", "knowledge-search", "knowledge-remove", "knowledge-show", "knowledge-clear", "knowledge-status",
    "knowledge-task-status",
]  # fmt: skip
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
CLIENT = {"name": "test", "version": "1"}


def post(product: Product, content: Any, **headers: str) -> httpx.Response:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return httpx.post(f"{product.url}/mcp", content=body, headers=head, timeout=WAIT_SECONDS)


@pytest.mark.requirement("000.protocol.registration")
@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_the_seven_tools_are_registered_with_their_schemas(mode: str, product: Product) -> None:
    async with open_sdk_transport(f"{product.url}/mcp", mode) as there:
        tools = (await there.client.list_tools()).tools
    assert [tool.name for tool in tools] == TOOLS
    add = tools[0]
    assert add.description == "Add a document or image to the knowledge base for semantic search"
    kinds = {name: schema["type"] for name, schema in add.input_schema["properties"].items()}
    assert kinds == {"file_path": "string", "metadata": "object", "force_ocr": "boolean", "async": "boolean"}
    assert add.input_schema["required"] == ["file_path"]
    assert add.input_schema["properties"]["async"]["default"] is True
    for tool in tools:
        assert tool.description and tool.annotations is not None


@pytest.mark.requirement("000.protocol.registration")
async def test_the_seven_tools_are_registered_over_stdio(process: StdioTransport) -> None:
    tools = (await process.rpc("tools/list"))["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS


@pytest.mark.requirement("000.protocol.version")
@pytest.mark.parametrize("version", [*VERSIONS, "1999-01-01"])
def test_a_supported_protocol_version_is_negotiated(version: str, product: Product) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    answer = post(product, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).json()["result"]
    assert answer["protocolVersion"] == (version if version in VERSIONS else VERSIONS[-1])
    assert answer["capabilities"]["tools"] == {"listChanged": True}
    assert answer["capabilities"]["prompts"] == {"listChanged": False}
    assert answer["serverInfo"]["name"] == "knowledge-server"
    assert answer["serverInfo"]["version"]


@pytest.mark.requirement("000.protocol.http")
def test_plain_http_needs_no_headers_or_handshake(product: Product) -> None:
    call = {"name": "knowledge-search", "arguments": {"query": "authentication", "top_k": 5}}
    response = post(product, {"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": call})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", "1")
    [block] = answer["result"]["content"]
    assert block["type"] == "text"
    assert "success" in json.loads(block["text"])


@pytest.mark.requirement("000.protocol.websocket")
@pytest.mark.parametrize("opening", ["plain", "legacy", "modern"])
async def test_a_websocket_serves_every_protocol_era(opening: str, product: Product) -> None:
    address = f"{product.url.replace('http', 'ws', 1)}/mcp"
    meta: Body = {}
    async with websockets.connect(address, subprotocols=[websockets.Subprotocol("mcp")]) as connection:
        assert connection.subprotocol == "mcp"
        socket = WebSocketTransport(connection)
        if opening == "legacy":
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
            assert (await socket.rpc("initialize", params))["result"]["protocolVersion"] == "2025-06-18"
            await socket.send("notifications/initialized")
        if opening == "modern":
            prefix = "io.modelcontextprotocol"
            meta = {"_meta": {f"{prefix}/protocolVersion": "2026-07-28", f"{prefix}/clientCapabilities": {}}}
            discovered = (await socket.rpc("server/discover", meta))["result"]
            assert discovered["supportedVersions"] == ["2026-07-28"]
        tools = (await socket.rpc("tools/list", meta))["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS


FAULTS = [
    (b"{nope", -32700, "parse_error"),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": NaN}}', -32700, "parse_error"),
    (b"[" * 100_000, -32700, "parse_error"),
    (b"[]", -32600, "invalid_request"),
    (b"7", -32600, "invalid_request"),
    (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, "invalid_request"),
    (b'{"jsonrpc": "2.0", "id": 1}', -32600, "invalid_request"),
    (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600, "invalid_request"),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, "invalid_request"),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/dance"}', -32601, "method_not_found"),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', -32602, "invalid_params"),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}', -32602, "invalid_params"),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}', -32602, "unknown_tool"),
    (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "knowledge-add", "arguments": 3}}',
        -32602,
        "invalid_params",
    ),
]


@pytest.mark.requirement("000.protocol.errors")
@pytest.mark.parametrize(("body", "code", "kind"), FAULTS)
def test_a_protocol_error_has_code_type_and_details(body: bytes, code: int, kind: str, product: Product) -> None:
    answer = post(product, body).json()
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    assert answer["error"]["data"]["error_type"] == kind
    assert isinstance(answer["error"]["data"]["details"], dict)


@pytest.mark.requirement("000.protocol.errors")
@pytest.mark.parametrize(("body", "code", "kind"), FAULTS)
async def test_a_websocket_sends_the_same_protocol_errors_and_stays_open(
    body: bytes, code: int, kind: str, product: Product
) -> None:
    async with websockets.connect(f"{product.url.replace('http', 'ws', 1)}/mcp") as connection:
        socket = WebSocketTransport(connection)
        await socket.rpc("ping")
        await connection.send(body.decode())
        answer = await socket.receive()
        assert (answer["error"]["code"], answer["error"]["data"]["error_type"]) == (code, kind)
        assert (await socket.rpc("ping"))["result"] == {}


@pytest.mark.requirement("000.protocol.errors")
@pytest.mark.parametrize(("body", "code", "kind"), FAULTS)
async def test_stdio_sends_the_same_protocol_errors_and_continues(
    body: bytes, code: int, kind: str, process: StdioTransport
) -> None:
    answer = await asyncio.to_thread(process.write_and_read_error, body.decode())
    assert (answer["error"]["code"], answer["error"]["data"]["error_type"]) == (code, kind)
    assert (await process.rpc("ping"))["result"] == {}


@pytest.mark.requirement("000.protocol.errors")
async def test_an_id_that_cannot_be_encoded_does_not_stop_stdio(process: StdioTransport) -> None:
    half = r'{"jsonrpc": "1.0", "id": "\ud800", "method": "ping"}'
    assert (await asyncio.to_thread(process.write_and_read_error, half))["error"]["code"] == -32600
    assert (await process.rpc("ping"))["result"] == {}


@pytest.mark.requirement("000.protocol.errors")
@pytest.mark.parametrize("session", [True, False])
async def test_both_protocol_eras_have_the_same_error_types_and_details(session: bool, product: Product) -> None:
    from mcp import MCPError

    async with open_sdk_transport(f"{product.url}/mcp", "legacy" if session else "modern") as there:
        with pytest.raises(MCPError) as caught:
            await there.client.call_tool("knowledge-dance", {})
    assert caught.value.error.code == -32602
    assert caught.value.error.data["error_type"] == "unknown_tool"
    assert caught.value.error.data["details"]["tools"] == TOOLS


@pytest.mark.requirement("000.protocol.errors")
def test_errors_of_the_sdk_also_have_type_and_details(product: Product) -> None:
    modern = {"mcp_protocol_version": "2026-07-28", "accept": "application/json, text/event-stream"}
    gone = {"mcp_session_id": "gone", "accept": "application/json, text/event-stream"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for response, status in ((post(product, b"{", **modern), 400), (post(product, ping, **gone), 404)):
        assert response.status_code == status
        assert set(response.json()["error"]["data"]) == {"error_type", "details"}


@pytest.mark.requirement("000.protocol.notification")
def test_a_notification_gets_no_answer(product: Product) -> None:
    for method in ("notifications/initialized", "notifications/unheard-of"):
        response = post(product, {"jsonrpc": "2.0", "method": method})
        assert (response.status_code, response.content) == (202, b"")


@pytest.mark.requirement("000.protocol.contract_test")
async def test_the_test_in_the_contract_passes(product: Product, files_folder: Any) -> None:
    from tests.contracts.knowledge.samples import write_sample

    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http:
        call_tool = PlainTransport(http).call

        response = await call_tool(
            "knowledge-add", file_path=str(write_sample(files_folder / "doc.pdf", "words")), **{"async": True}
        )
        assert response["success"] is True
        assert "task_id" in response or response["duplicate"] is True

        response = await call_tool("knowledge-add")
        assert response["success"] is False
        assert response["error"] == "missing_required_parameter"

        response = await call_tool("knowledge-add", file_path="/test/doc.xyz")
        assert response["error"] == "unsupported_format"


EXAMPLES: list[tuple[str, Body]] = [
    (
        "knowledge-add",
        {
            "file_path": "/path/to/document.pdf",
            "metadata": {"author": "John Doe", "tags": ["technical", "api-docs"]},
            "async": True,
        },
    ),
    (
        "knowledge-search",
        {
            "query": "How to set up vector database?",
            "top_k": 5,
            "min_relevance": 0.5,
            "filters": {"format": "pdf", "date_range": {"start": "2025-01-01", "end": "2025-12-31"}},
        },
    ),
    ("knowledge-remove", {"document_id": "uuid-v4-doc-id", "confirm": True}),
    ("knowledge-show", {"limit": 50, "offset": 0, "sort_by": "date_added", "sort_order": "desc"}),
    ("knowledge-clear", {"confirm": True, "confirmation_phrase": "DELETE ALL"}),
    ("knowledge-status", {}),
    ("knowledge-task-status", {"task_id": "8b5fbd2c-6f3c-4f83-9a3c-0a7a3d3f5b11"}),
]
EXPECTED: dict[str, set[str | None]] = {
    "knowledge-add": {"access_denied"},
    "knowledge-search": {"empty_knowledge_base", None},
    "knowledge-remove": {"document_not_found"},
    "knowledge-task-status": {"task_not_found"},
}


@pytest.mark.requirement("000.protocol.examples")
@pytest.mark.parametrize(("tool", "parameters"), EXAMPLES)
async def test_each_example_of_the_contract_is_accepted(tool: str, parameters: Body, product: Product) -> None:
    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http:
        answer = await PlainTransport(http).call(tool, **parameters)
    assert answer.get("error") in EXPECTED.get(tool, {None}), answer
