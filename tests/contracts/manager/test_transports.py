"""Contract 001: each tool returns its answers and errors on every transport and path."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import MCPError

from tests.contracts.manager.conftest import Person, Product
from tests.contracts.transports import Body, Transport


async def refuse_call(client: Transport, tool: str, **arguments: Any) -> tuple[int, str, str]:
    """Call a tool that is refused; return status, code and message."""
    try:
        answer = await client.rpc("tools/call", {"name": tool, "arguments": arguments})
    except MCPError as raised:
        error: Body = raised.error.model_dump(mode="json")
    else:
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
