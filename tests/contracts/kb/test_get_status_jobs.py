"""kb_get, kb_status and kb_jobs."""

from __future__ import annotations

import pytest

from tests.contracts.kb.conftest import Agent
from tests.contracts.kb.processes import WAIT_SECONDS, RecordingProxy


@pytest.mark.requirement("004.get.by_id", "004.get.strip")
async def test_a_document_comes_with_its_passages(agent: Agent, proxy: RecordingProxy) -> None:
    note = await agent.add_and_wait("kb_addnote", text="To be read", collection="reading", tags=["a", "b"])
    proxy.requests.clear()
    shown = await agent.call("kb_get", document_id=note)
    assert {request.line for request in proxy.requests} == {f"GET /api/v1/documents/{note}"}
    assert any("chunk_limit" not in request.query for request in proxy.requests)
    assert (shown["id"], shown["collection"], shown["tags"]) == (note, "reading", ["a", "b"])
    assert [chunk["text"] for chunk in shown["chunks"]] == ["To be read"]
    assert {"title", "doc_type", "metadata", "source_path", "created_at", "chunk_count"} <= set(shown)
    assert await agent.call("kb_get", document_id=shown["uid"]) == shown
    assert await agent.call("kb_get", document_id=str(note)) == shown


@pytest.mark.requirement("004.get.by_path")
async def test_documents_are_found_by_source_path(agent: Agent, proxy: RecordingProxy) -> None:
    path = "memory/feedback_testing.md"
    note = await agent.add_and_wait("kb_addnote", text="Tests first", source_path=path, collection="memory")
    proxy.requests.clear()
    answer = await agent.call("kb_get", source_path=path)
    [request] = proxy.requests
    assert (request.line, request.query) == ("GET /api/v1/documents", {"source_path": path})
    [shown] = answer["documents"]
    assert (shown["id"], shown["collection"], shown["tags"], answer["total"]) == (note, "memory", [], 1)
    nothing = await agent.call("kb_get", source_path="memory/nothing.md")
    assert (nothing["documents"], nothing["total"]) == ([], 0)
    assert "memory/nothing.md" in nothing["message"]


@pytest.mark.requirement("004.get.not_found")
async def test_an_unknown_document_is_named_in_the_error(agent: Agent) -> None:
    refused = await agent.call("kb_get", document_id=987654)
    assert refused["error"] == "document_not_found"
    assert "987654" in refused["message"]
    assert (await agent.call("kb_get"))["error"] == "missing_parameter"
    assert (await agent.call("kb_get", document_id=1, source_path="x"))["error"] == "invalid"


@pytest.mark.requirement("004.status.answer")
async def test_the_status_comes_from_the_engine(agent: Agent, proxy: RecordingProxy) -> None:
    status = await agent.call("kb_status")
    [request] = proxy.requests
    assert request.line == "GET /api/v1/status"
    assert status["version"]
    assert {"name", "device", "dimension", "loaded"} <= set(status["model"])
    assert isinstance(status["documents"], int)
    assert set(status["queue"]) == {"queued", "processing", "failed"}


@pytest.mark.requirement("004.jobs.list")
async def test_recent_jobs_are_listed(agent: Agent, proxy: RecordingProxy) -> None:
    added = await agent.call("kb_addnote", text="A job of its own")
    await agent.wait_for_document(added)
    proxy.requests.clear()
    answer = await agent.call("kb_jobs")
    [request] = proxy.requests
    assert (request.line, request.query) == ("GET /api/v1/jobs", {})
    [job] = [job for job in answer["jobs"] if job["id"] == added["job_id"]]
    assert (job["status"], job["progress"], job["error"]) == ("completed", 1.0, None)
    assert answer["total"] >= 1


@pytest.mark.requirement("004.jobs.status")
async def test_failed_jobs_are_listed_with_their_reason(agent: Agent, proxy: RecordingProxy) -> None:
    upload = await agent.upload_parts("empty.txt", b"   \n ")
    failed = await agent.call("kb_upload_finish", upload_id=upload)
    await agent.engine.wait(failed["job_id"], WAIT_SECONDS)
    proxy.requests.clear()
    answer = await agent.call("kb_jobs", status="failed")
    [request] = proxy.requests
    assert (request.line, request.query) == ("GET /api/v1/jobs", {"status": "failed"})
    [job] = [job for job in answer["jobs"] if job["id"] == failed["job_id"]]
    assert (job["status"], job["error"]["code"], job["document_id"]) == ("failed", "no_text", None)
    assert (await agent.call("kb_jobs", status="lost"))["error"] == "invalid_parameter"
