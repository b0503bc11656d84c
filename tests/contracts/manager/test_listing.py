"""tools/list and list_collections."""

from __future__ import annotations

import pytest

from knowledge.model import Permission
from tests.contracts.manager.conftest import ENDPOINT, Person


@pytest.mark.requirement("001.tools.list")
async def test_the_four_tools_are_listed_with_the_contracts_parameters(ada: Person) -> None:
    answer = (await ada.post("tools/list", {})).json()
    assert set(answer) == {"jsonrpc", "result", "id"}
    tools = {tool["name"]: tool for tool in answer["result"]["tools"]}
    assert list(tools) == ["query_knowledge", "query_corpus", "list_collections", "list_corpuses"]
    assert tools["query_knowledge"]["description"].startswith("Search indexed documents for relevant context")
    required = {name: tool["inputSchema"].get("required", []) for name, tool in tools.items()}
    assert required == {
        "query_knowledge": ["query"], "query_corpus": ["corpus_id", "query"], "list_collections": [],
        "list_corpuses": [],
    }  # fmt: skip
    query = tools["query_knowledge"]["inputSchema"]["properties"]
    assert query["collections"]["type"] == "array" and query["collections"]["items"]["type"] == "string"
    assert (query["n_results"]["default"], query["n_results"]["minimum"], query["n_results"]["maximum"]) == (5, 1, 20)
    assert tools["query_corpus"]["inputSchema"]["properties"]["corpus_id"]["type"] == "integer"
    corpuses = tools["list_corpuses"]["inputSchema"]["properties"]
    assert corpuses["category"]["enum"] == ["legal", "medical", "research", "general", "technical"]
    assert corpuses["approved_only"]["default"] is True
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values())


@pytest.mark.requirement("001.list_collections.answer")
async def test_collections_are_listed_with_their_files_and_sizes(ada: Person) -> None:
    await ada.add_file("python_tutorial.md", "Python is a language.", "python_docs")
    await ada.add_file("async_guide.md", "Await what is async.", "python_docs")
    await ada.add_file("contract_template.md", "The parties agree.", "legal_contracts")
    answer = await ada.call("list_collections")
    shown = {one["name"]: one for one in answer["collections"]}
    assert set(shown["python_docs"]["files"]) == {"python_tutorial.md", "async_guide.md"}
    assert (shown["python_docs"]["num_chunks"], shown["python_docs"]["num_files"]) == (2, 2)
    assert shown["legal_contracts"]["files"] == ["contract_template.md"]
    assert answer["count"] == len(answer["collections"]) == 2


@pytest.mark.requirement("001.list_collections.accessible")
async def test_collections_of_others_are_not_listed_until_they_are_shared(ada: Person, bob: Person) -> None:
    corpus = await bob.create_corpus("Bobs Own", "Tea")
    names = [one["name"] for one in (await ada.call("list_collections"))["collections"]]
    assert corpus.name not in names
    await bob.engine.corpora.grant(corpus.id, ada.name, Permission.READ)
    [shared] = [one for one in (await ada.call("list_collections"))["collections"] if one["id"] == corpus.id]
    assert (shared["name"], shared["files"]) == (corpus.name, [f"{corpus.name}.md"])


@pytest.mark.requirement("001.list_collections.parameters")
async def test_list_collections_takes_no_arguments(ada: Person) -> None:
    without = await ada.post("tools/call", {"name": "list_collections"})
    assert without.json()["result"]["count"] >= 0
    status, code, message = await ada.call_refused("list_collections", page=2)
    assert (status, code) == (422, "validation.invalid_parameter")
    assert message == "Unknown parameter: page. Valid parameters: none"


@pytest.mark.requirement("001.list_collections.many_files")
async def test_a_long_list_of_files_is_truncated_and_counted(ada: Person) -> None:
    for number in range(101):
        await ada.add_file(f"{number:03}.txt", f"Tea number {number}", "teas")
    [collection] = (await ada.call("list_collections"))["collections"]
    assert (len(collection["files"]), collection["num_files"], collection["files"][0]) == (100, 101, "100.txt")


@pytest.mark.requirement("001.endpoints.protocol")
async def test_protocol_errors_keep_their_codes(ada: Person) -> None:
    async with ada.http() as http:
        broken = await http.post(ENDPOINT, content=b"{", headers={"content-type": "application/json"})
        assert (broken.status_code, broken.json()["error"]["code"]) == (400, -32700)
    assert (await ada.post("tools/nothing")).json()["error"]["code"] == -32601
    unknown = (await ada.post("tools/call", {"name": "knowledge-clear", "arguments": {}})).json()
    assert unknown["error"]["code"] == -32602
    assert (await ada.post("ping")).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.requirement("001.endpoints.owner")
async def test_the_local_owner_has_the_tools_at_mcp_manager(ada: Person) -> None:
    """The local owner needs no key at /mcp/manager and sees no collections of accounts."""
    import httpx

    await ada.add_note("Ada's tea is in the attic.", "attic")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_collections"}}
    async with httpx.AsyncClient(base_url=ada.url) as http:
        answer = await http.post("/mcp/manager", json=message)
    assert answer.status_code == 200
    assert "attic" not in [one["name"] for one in answer.json()["result"]["collections"]]
