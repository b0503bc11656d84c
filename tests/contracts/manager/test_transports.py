"""Contract 001: each tool returns its answers and errors on every transport and path."""

from __future__ import annotations

import json
from typing import Any

import pytest
import websockets

from tests.contracts.manager.conftest import ENDPOINT, Person, Product, open_sdk_transport
from tests.contracts.transports import SdkTransport, Transport, WebSocketTransport


async def refuse_call(client: Transport, tool: str, **arguments: Any) -> tuple[int, str, str]:
    """Call a tool that is refused; return status, code and message.

    Plain callers get a JSON-RPC error, MCP clients a tool result.
    """
    answer = await client.rpc("tools/call", {"name": tool, "arguments": arguments})
    if isinstance(client, SdkTransport):
        result = answer["result"]
        assert result["isError"] is True
        [block] = result["content"]
        body = json.loads(block["text"])
        assert result["structuredContent"] == body
        assert body["hint"]
        return body["http_status"], body["code"], body["message"]
    error = answer["error"]
    assert error["code"] == error["data"]["http_status"]
    return error["code"], error["data"]["error_type"], error["message"]


@pytest.mark.requirement("001.endpoints.eras")
@pytest.mark.requirement("001.endpoints.slash")
async def test_query_knowledge_answers_on_every_transport(transport_client: Transport, ada: Person) -> None:
    await ada.add_note("Grüner Tee: 80 °C 🍵.", "drinks", title="Tee")
    answer = await transport_client.call("query_knowledge", query="Tee", collections=["drinks"], n_results=5)
    assert answer["context"].startswith("Grüner Tee: 80 °C 🍵.")
    assert (answer["num_results"], answer["collections_searched"]) == (1, ["drinks"])
    refused = await refuse_call(transport_client, "query_knowledge", query="")
    assert refused == (422, "validation.empty_query", "Query cannot be empty")


@pytest.mark.requirement("001.endpoints.eras")
@pytest.mark.requirement("001.endpoints.slash")
async def test_query_corpus_answers_on_every_transport(transport_client: Transport, ada: Person) -> None:
    corpus = await ada.create_corpus("Law", "The penalties for breach of contract are damages.", category="legal")
    answer = await transport_client.call("query_corpus", corpus_id=corpus.id, query="breach of contract")
    assert "The penalties for breach of contract are damages." in answer["context"]
    assert (answer["num_results"], answer["corpus_id"]) == (1, corpus.id)
    refused = await refuse_call(transport_client, "query_corpus", corpus_id=corpus.id + 1_000_000, query="breach")
    assert refused[:2] == (404, "resource.corpus_not_found")


@pytest.mark.requirement("001.endpoints.eras")
@pytest.mark.requirement("001.endpoints.slash")
async def test_list_collections_answers_on_every_transport(transport_client: Transport, ada: Person) -> None:
    await ada.add_file("teas.md", "Tea is served at five.", "drinks")
    answer = await transport_client.call("list_collections")
    [collection] = answer["collections"]
    assert (collection["name"], collection["files"], collection["num_chunks"]) == ("drinks", ["teas.md"], 1)
    assert answer["count"] == 1
    refused = await refuse_call(transport_client, "list_collections", page=2)
    assert refused == (422, "validation.invalid_parameter", "Unknown parameter: page. Valid parameters: none")


@pytest.mark.requirement("001.endpoints.eras")
@pytest.mark.requirement("001.endpoints.slash")
async def test_list_corpuses_answers_on_every_transport(
    transport_client: Transport, ada: Person, product: Product
) -> None:
    corpus = await ada.create_corpus("Law", category="legal", description="All of it", is_public=True)
    await product.engine.corpora.approve(corpus.id)
    answer = await transport_client.call("list_corpuses", category="legal")
    await product.engine.corpora.revoke_approval(corpus.id)  # other tests of this server do not see it
    [shown] = [one for one in answer["corpuses"] if one["id"] == corpus.id]
    assert (shown["display_name"], shown["is_approved"], shown["description"]) == ("Law", True, "All of it")
    assert answer["filters"] == {"category": "legal", "approved_only": True}
    refused = await refuse_call(transport_client, "list_corpuses", category="gardening")
    assert refused[:2] == (422, "validation.invalid_parameter")


@pytest.mark.requirement("001.refusals.mcp")
@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_mcp_clients_get_a_refusal_as_a_result_that_holds_all_facts(mode: str, ada: Person) -> None:
    async with open_sdk_transport(f"{ada.url}{ENDPOINT}", ada.key, mode) as client:
        answer = await client.rpc("tools/call", {"name": "query_knowledge", "arguments": {"q": "tea"}})
    result = answer["result"]
    assert result["isError"] is True
    body = json.loads(result["content"][0]["text"])
    assert (
        body
        == result["structuredContent"]
        == {
            "message": "Missing required parameter: query. Unknown parameter: q (did you mean 'query'?)",
            "code": "validation.invalid_parameter",
            "hint": "Did you mean 'query' instead of 'q'?",
            "http_status": 422,
            "details": {
                "parameter": "query",
                "unknown_parameters": ["q"],
                "valid_parameters": ["query", "collections", "n_results", "trusted_only"],
            },
        }
    )


@pytest.mark.requirement("001.refusals.plain")
async def test_plain_callers_get_a_refusal_as_the_contract_prints_it(ada: Person) -> None:
    answer = await ada.post("tools/call", {"name": "query_knowledge", "arguments": {"query": " "}})
    assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (422, "validation.empty_query")
    error = answer.json()["error"]
    assert (error["code"], error["message"], error["data"]["http_status"]) == (422, "Query cannot be empty", 422)


@pytest.mark.requirement("001.refusals.plain")
@pytest.mark.requirement("001.refusals.mcp")
@pytest.mark.parametrize("handshake", [False, True])
async def test_a_web_socket_without_a_handshake_is_a_plain_caller(handshake: bool, ada: Person) -> None:
    address = f"{ada.url.replace('http', 'ws', 1)}/mcp/manager"
    async with websockets.connect(address, additional_headers={"X-API-Key": ada.key}) as connection:
        socket = WebSocketTransport(connection)
        if handshake:
            client = {"name": "test", "version": "1"}
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
            assert "result" in await socket.rpc("initialize", params)
            await socket.notify("notifications/initialized", {})
        answer = await socket.rpc("tools/call", {"name": "query_knowledge", "arguments": {"query": ""}})
    if handshake:
        assert answer["result"]["isError"] is True
        assert answer["result"]["structuredContent"]["code"] == "validation.empty_query"
    else:
        assert answer["error"]["code"] == 422
