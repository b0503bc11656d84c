"""kb_search: one request to the engine, and collections as a field."""

from __future__ import annotations

import pytest

from tests.contracts.kb.conftest import Agent
from tests.contracts.kb.processes import ENGINE_KEY, RecordingProxy


@pytest.mark.requirement("004.search.answer")
async def test_a_search_is_one_request_and_answers_passages_with_their_documents(
    agent: Agent, line: RecordingProxy
) -> None:
    note = await agent.add_and_wait(
        "kb_addnote", text="Pension revaluation is due in April", tags=["money"], title="Pension"
    )
    line.requests.clear()
    answer = await agent.call("kb_search", query="pension revaluation", top=5)
    [said] = line.requests
    assert said.line == "POST /api/v1/search"
    assert (said.json["query"], said.json["top"], said.json["tags"]) == ("pension revaluation", 5, [])
    assert said.headers["authorization"] == f"Bearer {ENGINE_KEY}"
    assert (answer["query"], answer["returned"], answer["total_matches"]) == ("pension revaluation", 1, 1)
    [hit] = answer["results"]
    assert (hit["document_id"], hit["text"]) == (note, "Pension revaluation is due in April")
    assert 0 < hit["score"] <= 1
    assert (hit["title"], hit["doc_type"], hit["chunk_index"]) == ("Pension", "note", 0)
    assert set(hit["chunk_metadata"]) == {"page", "section_header"}
    assert {"metadata", "source_path", "created_at"} <= set(hit)


@pytest.mark.requirement("004.search.collection", "004.search.strip", "004.collections.field")
async def test_a_collection_goes_out_as_a_tag_and_comes_back_as_a_field(agent: Agent, line: RecordingProxy) -> None:
    text = "Email preferences: short mails"
    note = await agent.add_and_wait("kb_addnote", text=text, collection="mails", tags=["feedback", "email"])
    await agent.add_and_wait("kb_addnote", text=f"{text}, elsewhere")
    line.requests.clear()
    answer = await agent.call("kb_search", query="email preferences", collection="mails")
    [said] = line.requests
    assert said.json["tags"] == ["collection:mails"]
    assert not said.json["collections"]
    [hit] = answer["results"]
    assert (hit["document_id"], hit["collection"], sorted(hit["tags"])) == (note, "mails", ["email", "feedback"])


@pytest.mark.requirement("004.search.tags")
async def test_tags_and_a_collection_are_combined(agent: Agent, line: RecordingProxy) -> None:
    await agent.add_and_wait("kb_addnote", text="Feedback by telephone", collection="calls", tags=["telephone"])
    note = await agent.add_and_wait("kb_addnote", text="Feedback by email", collection="calls", tags=["email", "late"])
    line.requests.clear()
    answer = await agent.call("kb_search", query="feedback", tags=["email"], collection="calls")
    assert line.requests[0].json["tags"] == ["email", "collection:calls"]
    assert [hit["document_id"] for hit in answer["results"]] == [note]
    again = await agent.call("kb_search", query="feedback", tags=["email", "collection:calls"])
    assert again["results"] == answer["results"]


@pytest.mark.requirement("004.search.fts_only")
async def test_words_alone_are_asked_for_by_name(agent: Agent, line: RecordingProxy) -> None:
    await agent.add_and_wait("kb_addnote", text="The error log grows in the night")
    line.requests.clear()
    assert (await agent.call("kb_search", query="error log", fts_only=True))["returned"] == 1
    assert line.requests[0].json["fts_only"] is True
    await agent.call("kb_search", query="error log")
    assert line.requests[1].json["fts_only"] is False
    both = await agent.call("kb_search", query="error log", fts_only=True, vec_only=True)
    assert both["error"] == "invalid_parameter"


@pytest.mark.requirement("004.search.nothing_yet")
async def test_a_collection_in_which_nothing_was_kept_yet_has_no_results(agent: Agent) -> None:
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
async def test_wrong_arguments_are_refused_by_name(
    agent: Agent, arguments: dict[str, object], code: str, named: str
) -> None:
    refused = await agent.call("kb_search", **arguments)
    assert refused["error"] == code
    assert named in refused["message"]
