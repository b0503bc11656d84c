"""search_knowledge_base."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.transports import PlainTransport, Transport


async def added(client: Transport, path: Path, **facts: object) -> dict[str, object]:
    answer = await client.call("manage_document", action="create", file_path=str(path), **facts)
    assert answer["success"], answer
    document: dict[str, object] = answer["document"]
    return document


@pytest.mark.requirement("002.search.answer")
@pytest.mark.parametrize("kind", ["vector", "hybrid", "rerank"])
async def test_each_search_type_returns_the_contracts_shape(client: Transport, paper: Path, kind: str) -> None:
    document = await added(client, paper)
    answer = await client.call("search_knowledge_base", query="coroutine friends", search_type=kind)
    assert (answer["success"], answer["search_type"], answer["query"]) == (True, kind, "coroutine friends")
    assert answer["count"] == len(answer["results"]) >= 1
    first = answer["results"][0]
    assert {"chunk_id", "document_id", "document_title", "text", "score", "match_type", "metadata"} <= set(first)
    assert (first["document_id"], first["document_title"]) == (document["id"], "Async patterns")
    assert first["match_type"] == kind
    assert first["metadata"]["source_id"] == document["source_id"]
    assert {"source_id", "chunk_index", "url"} <= set(first["metadata"])
    assert 0 < first["score"] <= 1


@pytest.mark.requirement("002.search.source")
async def test_a_search_stays_inside_its_source(client: Transport, paper: Path, tmp_path: Path) -> None:
    source = (await client.call("manage_source", action="create", title="Papers"))["source"]["id"]
    await added(client, paper)
    other = paper.with_name("other.md")
    other.write_text("# Other\n\nA coroutine elsewhere.")
    inside = await added(client, other, source_id=source)
    answer = await client.call("search_knowledge_base", query="coroutine", source_id=source)
    assert {hit["document_id"] for hit in answer["results"]} == {inside["id"]}


@pytest.mark.requirement("002.search.source_unknown")
async def test_an_unknown_source_is_refused_with_the_call_that_lists_them(client: Transport) -> None:
    answer = await client.call("search_knowledge_base", query="tea", source_id="src_abc123")
    assert answer == {
        "success": False,
        "error": "Invalid source_id: src_abc123 not found",
        "suggestion": "Use manage_source(action='list') to see available sources",
    }


@pytest.mark.requirement("002.search.match_count")
@pytest.mark.parametrize(("given", "used"), [(1000, 50), (0, 1), (-5, 1), (7, 7)])
async def test_match_count_is_clamped_and_shown(tools: PlainTransport, given: int, used: int) -> None:
    answer = await tools.call("search_knowledge_base", query="tea", match_count=given)
    assert answer["match_count"] == used


@pytest.mark.requirement("002.search.threshold")
async def test_the_threshold_is_the_minimum_relevance(tools: PlainTransport, paper: Path) -> None:
    await added(tools, paper)
    everything = await tools.call("search_knowledge_base", query="coroutine", similarity_threshold=0)
    scores = [hit["score"] for hit in everything["results"]]
    assert len(scores) == 2
    between = sum(scores) / 2
    best = await tools.call("search_knowledge_base", query="coroutine", similarity_threshold=between)
    assert [hit["score"] for hit in best["results"]] == [scores[0]]
    none = await tools.call("search_knowledge_base", query="coroutine", similarity_threshold=7)
    assert none["similarity_threshold"] == 1


@pytest.mark.requirement("002.search.truncated")
async def test_long_texts_and_titles_are_truncated(tools: PlainTransport, paper: Path) -> None:
    paper.with_name("long.txt").write_text("kettle " + "responsibilities " * 150)
    document = await added(tools, paper.with_name("long.txt"), metadata={"abstract": "tea " * 500})
    updated = await tools.call("manage_document", action="update", document_id=document["id"], title="T" * 400)
    assert len(updated["document"]["metadata"]["abstract"]) == 1000
    (hit,) = (await tools.call("search_knowledge_base", query="kettle"))["results"]
    for text, most in ((hit["text"], 1000), (hit["document_title"], 200), (updated["document"]["title"], 200)):
        assert len(text) == most
        assert text.endswith("...")


@pytest.mark.requirement("002.search.type")
async def test_an_unknown_search_type_is_refused_with_the_valid_types(client: Transport) -> None:
    answer = await client.call("search_knowledge_base", query="tea", search_type="psychic")
    assert answer["error"] == "Invalid search_type: psychic"
    assert answer["suggestion"].startswith("Use 'vector', 'hybrid', or 'rerank'")


@pytest.mark.requirement("002.search.empty")
async def test_an_empty_knowledge_base_returns_no_results(client: Transport) -> None:
    answer = await client.call("search_knowledge_base", query="tea")
    assert (answer["success"], answer["results"], answer["count"]) == (True, [], 0)


@pytest.mark.requirement("002.errors.shape")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_knowledge_base", {}),
        ("search_knowledge_base", {"query": ""}),
        ("search_knowledge_base", {"query": "?!"}),
        ("search_knowledge_base", {"query": 5}),
        ("search_knowledge_base", {"query": "tea", "limit": 5}),
        ("manage_document", {}),
        ("manage_document", {"action": "steal"}),
        ("manage_document", {"action": "create"}),
        ("manage_document", {"action": "create", "file_path": "/no/such/file.pdf"}),
        ("manage_document", {"action": "create", "file_path": "/no/such/file.xyz"}),
        ("manage_document", {"action": "get"}),
        ("manage_document", {"action": "get", "document_id": "doc_xyz"}),
        ("manage_document", {"action": "update", "document_id": 99999}),
        ("manage_document", {"action": "delete"}),
        ("manage_source", {"action": "invalid_action"}),
        ("manage_source", {"action": "create"}),
        ("manage_source", {"action": "create", "title": "x", "source_type": "magic"}),
        ("manage_source", {"action": "delete", "source_id": "nowhere"}),
        ("crawl_website", {}),
        ("crawl_website", {"url": "ftp://example.com"}),
        ("crawl_website", {"url": "http://169.254.169.254/"}),
        ("manage_crawl_job", {"action": "get"}),
        ("manage_crawl_job", {"action": "get", "job_id": "job_xyz"}),
        ("manage_crawl_job", {"action": "pause"}),
    ],
)  # fmt: skip
async def test_every_refusal_names_the_next_call(
    tools: PlainTransport, tool: str, arguments: dict[str, object]
) -> None:
    answer = await tools.call(tool, **arguments)
    assert set(answer) == {"success", "error", "suggestion"}
    assert answer["success"] is False
    assert answer["error"]
    names = ("search_knowledge_base(", "manage_document(", "manage_source(", "crawl_website", "manage_crawl_job(")
    assert any(name in answer["suggestion"] for name in names), answer["suggestion"]


@pytest.mark.requirement("002.tools.list")
async def test_the_five_tools_are_listed_with_their_parameters_and_annotations(tools: PlainTransport) -> None:
    listed = {tool["name"]: tool for tool in (await tools.rpc("tools/list"))["result"]["tools"]}
    assert list(listed) == [
        "search_knowledge_base", "manage_document", "manage_source", "crawl_website", "manage_crawl_job",
    ]  # fmt: skip
    search = listed["search_knowledge_base"]["inputSchema"]
    assert search["required"] == ["query"]
    assert {name: field.get("default") for name, field in search["properties"].items()} == {
        "query": None, "source_id": None, "match_count": 10, "search_type": "hybrid", "similarity_threshold": 0.05,
        "trusted_only": False,
    }  # fmt: skip
    assert listed["search_knowledge_base"]["annotations"]["readOnlyHint"] is True
    assert listed["manage_source"]["annotations"]["destructiveHint"] is True
    assert listed["crawl_website"]["annotations"]["openWorldHint"] is True
