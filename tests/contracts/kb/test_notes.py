"""kb_addnote and kb_update_note: exactly one collection, and updates in place."""

from __future__ import annotations

import asyncio

import pytest

from knowledge.model import DocumentFilter
from tests.contracts.kb.conftest import Agent
from tests.contracts.kb.processes import RecordingProxy


@pytest.mark.requirement("004.addnote.default", "004.collections.default")
async def test_a_note_goes_to_the_default_collection(agent: Agent, proxy: RecordingProxy) -> None:
    answer = await agent.call("kb_addnote", text="User prefers concise responses")
    [request] = proxy.requests
    assert request.line == "POST /api/v1/jobs"
    assert (request.json["note"], request.json["tags"]) == ("User prefers concise responses", ["collection:documents"])
    assert isinstance(answer["job_id"], int)
    assert (answer["collection"], answer["tags"]) == ("documents", [])
    await agent.wait_for_document(answer)


@pytest.mark.requirement("004.addnote.collection", "004.collections.explicit")
async def test_a_note_goes_to_the_named_collection(agent: Agent, proxy: RecordingProxy) -> None:
    text = "User prefers very concise responses"
    answer = await agent.call("kb_addnote", text=text, collection="memory", tags=["feedback"])
    assert proxy.requests[0].json["tags"] == ["collection:memory", "feedback"]
    document = await agent.engine.document(await agent.wait_for_document(answer))
    assert (document.collection, document.tags) == ("memory", ("feedback",))


@pytest.mark.requirement("004.addnote.exclusive")
async def test_a_note_has_exactly_one_collection_tag(agent: Agent, proxy: RecordingProxy) -> None:
    note = await agent.add_and_wait(
        "kb_addnote", text="some note", collection="memory", tags=["collection:memory", "x"]
    )
    proxy.requests.clear()
    document = await agent.call("kb_get", document_id=note)
    assert (document["collection"], document["tags"]) == ("memory", ["x"])
    shown = await agent.engine.document(note)
    assert (shown.collection, shown.tags) == ("memory", ("x",))
    refused = await agent.call("kb_addnote", text="torn", collection="memory", tags=["collection:work"])
    assert (refused["error"], refused["details"]["collections"]) == ("invalid", ["memory", "work"])


@pytest.mark.requirement("004.addnote.duplicate")
async def test_the_same_note_again_is_a_success_that_adds_nothing(agent: Agent) -> None:
    note = await agent.add_and_wait("kb_addnote", text="Only once", collection="once")
    again = await agent.call("kb_addnote", text="Only once", collection="once")
    assert (again["duplicate"], again["document_id"]) == (True, note)
    assert (await agent.engine.documents(DocumentFilter(collection="once"))).total == 1


@pytest.mark.requirement("004.addnote.parameters")
async def test_a_note_needs_a_text(agent: Agent) -> None:
    assert (await agent.call("kb_addnote"))["error"] == "missing_parameter"
    assert (await agent.call("kb_addnote", text=""))["error"] == "invalid_parameter"
    assert (await agent.call("kb_addnote", text=" \n"))["error"] == "invalid_parameter"
    assert "body" in (await agent.call("kb_addnote", text="x", body="x"))["message"]


@pytest.mark.requirement("004.update_note.answer")
async def test_a_note_is_updated_in_place_and_keeps_its_collection_and_tags(
    agent: Agent, proxy: RecordingProxy
) -> None:
    note = await agent.add_and_wait("kb_addnote", text="Preference: long answers", collection="likes", tags=["style"])
    proxy.requests.clear()
    answer = await agent.call("kb_update_note", document_id=note, text="Preference: bullet points")
    [request] = proxy.requests
    assert (request.line, request.json) == (f"PATCH /api/v1/notes/{note}", {"text": "Preference: bullet points"})
    assert (answer["id"], answer["collection"], answer["tags"]) == (note, "likes", ["style"])
    found = await agent.call("kb_search", query="bullet points", collection="likes")
    assert [hit["document_id"] for hit in found["results"]] == [note]
    assert (await agent.call("kb_search", query='"long answers"', collection="likes"))["results"] == []


@pytest.mark.requirement("004.update_note.not_found")
async def test_an_update_of_an_unknown_note_names_its_id(agent: Agent) -> None:
    refused = await agent.call("kb_update_note", document_id=987654, text="nothing")
    assert refused["error"] == "document_not_found"
    assert "987654" in refused["message"]
    assert (await agent.call("kb_update_note", document_id="tea", text="nothing"))["error"] == "invalid_parameter"


@pytest.mark.requirement("004.update_note.not_a_note")
async def test_only_notes_can_be_updated(agent: Agent) -> None:
    file = await agent.add_and_wait(
        "kb_upload_finish", upload_id=await agent.upload_parts("plan.txt", b"A plan in a file")
    )
    refused = await agent.call("kb_update_note", document_id=file, text="nothing")
    assert refused["error"] == "not_a_note"
    assert "only notes can be updated" in refused["message"]


@pytest.mark.requirement("004.update_note.collection", "004.collections.exclusive")
async def test_a_move_removes_the_old_collection_tag_and_adds_the_new_one(agent: Agent, proxy: RecordingProxy) -> None:
    note = await agent.add_and_wait("kb_addnote", text="It will move", tags=["kept"])
    proxy.requests.clear()
    answer = await agent.call("kb_update_note", document_id=note, text="It has moved", collection="moved")
    assert [request.line for request in proxy.requests] == [
        f"PATCH /api/v1/notes/{note}",
        f"PUT /api/v1/documents/{note}/tags",
    ]
    assert proxy.requests[1].json == {"remove": ["collection:documents"], "add": ["collection:moved"]}
    assert [*proxy.requests[1].json] == ["remove", "add"]
    assert (answer["collection"], answer["tags"]) == ("moved", ["kept"])
    proxy.requests.clear()
    await agent.call("kb_update_note", document_id=note, text="It stays", collection="moved")
    assert [request.method for request in proxy.requests] == ["PATCH"]


@pytest.mark.requirement("004.update_note.concurrent")
async def test_concurrent_updates_leave_one_whole_text_in_the_index(agent: Agent) -> None:
    note = await agent.add_and_wait("kb_addnote", text="nobody has won", collection="race")
    texts = [f"runner {number} wins" for number in range(5)]
    await asyncio.gather(*(agent.call("kb_update_note", document_id=note, text=text) for text in texts))
    [passage] = (await agent.call("kb_get", document_id=note))["chunks"]
    assert passage["text"] in texts
    found = await agent.call("kb_search", query="runner wins", collection="race", top=50)
    assert [hit["text"] for hit in found["results"]] == [passage["text"]]
