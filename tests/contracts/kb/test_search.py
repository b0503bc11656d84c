"""kb_search: one request to the engine; collections are tags there and a field here."""

from __future__ import annotations

import pytest

from tests.contracts.kb.conftest import Agent
from tests.contracts.kb.processes import ENGINE_KEY, RecordingProxy


@pytest.mark.requirement("004.search.answer")
async def test_a_search_is_one_request_and_returns_passages_with_their_documents(
    agent: Agent, proxy: RecordingProxy
) -> None:
    note = await agent.add_and_wait(
        "kb_addnote", text="Pension revaluation is due in April", tags=["money"], title="Pension"
    )
    proxy.requests.clear()
    answer = await agent.call("kb_search", query="pension revaluation", top=5)
    [request] = proxy.requests
    assert request.line == "POST /api/v1/search"
    assert (request.json["query"], request.json["top"], request.json["tags"]) == ("pension revaluation", 5, [])
    assert request.headers["authorization"] == f"Bearer {ENGINE_KEY}"
    assert (answer["query"], answer["returned"], answer["total_matches"]) == ("pension revaluation", 1, 1)
    [hit] = answer["results"]
    assert (hit["document_id"], hit["text"]) == (note, "Pension revaluation is due in April")
    assert 0 < hit["score"] <= 1
    assert (hit["title"], hit["doc_type"], hit["chunk_index"]) == ("Pension", "note", 0)
    assert set(hit["chunk_metadata"]) == {"page", "section_header"}
    assert {"metadata", "source_path", "created_at"} <= set(hit)


@pytest.mark.requirement("004.search.collection", "004.search.strip", "004.collections.field")
async def test_a_collection_is_sent_as_a_tag_and_returned_as_a_field(agent: Agent, proxy: RecordingProxy) -> None:
    text = "Email preferences: short mails"
    note = await agent.add_and_wait("kb_addnote", text=text, collection="mails", tags=["feedback", "email"])
    await agent.add_and_wait("kb_addnote", text=f"{text}, elsewhere")
    proxy.requests.clear()
    answer = await agent.call("kb_search", query="email preferences", collection="mails")
    [request] = proxy.requests
    assert request.json["tags"] == ["collection:mails"]
    assert not request.json["collections"]
    [hit] = answer["results"]
    assert (hit["document_id"], hit["collection"], sorted(hit["tags"])) == (note, "mails", ["email", "feedback"])


@pytest.mark.requirement("004.search.tags")
async def test_tags_and_a_collection_are_combined(agent: Agent, proxy: RecordingProxy) -> None:
    await agent.add_and_wait("kb_addnote", text="Feedback by telephone", collection="calls", tags=["telephone"])
    note = await agent.add_and_wait("kb_addnote", text="Feedback by email", collection="calls", tags=["email", "late"])
    proxy.requests.clear()
    answer = await agent.call("kb_search", query="feedback", tags=["email"], collection="calls")
    assert proxy.requests[0].json["tags"] == ["email", "collection:calls"]
    assert [hit["document_id"] for hit in answer["results"]] == [note]
    again = await agent.call("kb_search", query="feedback", tags=["email", "collection:calls"])
    assert again["results"] == answer["results"]


@pytest.mark.requirement("004.search.fts_only")
async def test_fts_only_is_passed_to_the_engine(agent: Agent, proxy: RecordingProxy) -> None:
    await agent.add_and_wait("kb_addnote", text="The error log grows in the night")
    proxy.requests.clear()
    assert (await agent.call("kb_search", query="error log", fts_only=True))["returned"] == 1
    assert proxy.requests[0].json["fts_only"] is True
    await agent.call("kb_search", query="error log")
    assert proxy.requests[1].json["fts_only"] is False
    both = await agent.call("kb_search", query="error log", fts_only=True, vec_only=True)
    assert both["error"] == "invalid_parameter"


@pytest.mark.requirement("004.search.nothing_yet")
async def test_a_collection_that_does_not_exist_yet_has_no_results(agent: Agent) -> None:
    answer = await agent.call("kb_search", query="anything", collection="not yet there")
    assert (answer["results"], answer["total_matches"], answer["returned"]) == ([], 0, 0)
    assert "not yet there" in answer["notes"][0]


@pytest.mark.requirement("004.search.parameters")
@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ({}, "missing_parameter", "query"),
        ({"query": ""}, "invalid_parameter", "query"),
        ({"query": " "}, "empty_query", ""),
        ({"query": "tea", "top": 0}, "invalid_parameter", "top"),
        ({"query": "tea", "top": 101}, "invalid_parameter", "top"),
        ({"query": "tea", "tags": "hot"}, "invalid_parameter", "tags"),
        ({"query": "tea", "collection": " "}, "invalid_parameter", "collection"),
        ({"query": "tea", "collection": "a", "tags": ["collection:b"]}, "invalid", "several"),
        ({"query": "tea", "limit": 3}, "unknown_parameter", "limit"),
    ],
)
async def test_invalid_arguments_are_named_in_the_error(
    agent: Agent, arguments: dict[str, object], code: str, named: str
) -> None:
    refused = await agent.call("kb_search", **arguments)
    assert refused["error"] == code
    assert named in refused["message"]
