"""manage_document and manage_source."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.contracts.rag.conftest import Product
from tests.contracts.transports import PlainTransport, Transport


@pytest.mark.requirement("002.document.create")
async def test_create_waits_and_returns_the_finished_document(client: Transport, paper: Path) -> None:
    source = (await client.call("manage_source", action="create", title="Research"))["source"]
    answer = await client.call(
        "manage_document",
        action="create",
        file_path=str(paper),
        source_id=source["id"],
        title="Research Paper",
        url="https://example.com/paper",
        metadata={"author": "John Doe", "year": 2024, "tags": ["async"]},
    )
    document = answer["document"]
    assert set(document) == {
        "id", "title", "source_id", "document_type", "url", "chunks_created", "status", "created_at", "metadata",
    }  # fmt: skip
    assert (document["title"], document["source_id"]) == ("Research Paper", source["id"])
    assert (document["document_type"], document["status"]) == ("md", "completed")
    assert document["url"] == "https://example.com/paper"
    assert document["metadata"]["author"] == "John Doe"
    assert document["metadata"]["tags"] == ["async"]
    assert answer["message"] == f"Document ingested successfully with {document['chunks_created']} chunks"
    found = await client.call("search_knowledge_base", query="pooled connections", source_id=source["id"])
    assert found["count"] > 0


@pytest.mark.requirement("002.document.duplicate")
async def test_the_same_file_again_is_the_same_document(client: Transport, paper: Path) -> None:
    first = await client.call("manage_document", action="create", file_path=str(paper))
    second = await client.call("manage_document", action="create", file_path=str(paper))
    assert second["duplicate"] is True
    assert second["document"]["id"] == first["document"]["id"]


@pytest.mark.requirement("002.document.missing_path")
async def test_create_without_a_file_is_refused_with_the_contracts_message(client: Transport) -> None:
    answer = await client.call("manage_document", action="create")
    assert answer["error"] == "file_path required for create"
    assert answer["suggestion"].startswith("Provide file_path to upload document")


@pytest.mark.requirement("002.document.failure")
async def test_a_file_without_text_is_refused_with_the_reason(tools: PlainTransport, product: Product) -> None:
    empty = product.files_folder / "empty.html"
    empty.write_text("<html><body></body></html>")
    answer = await tools.call("manage_document", action="create", file_path=str(empty))
    assert not answer["success"]
    assert "empty.html" in answer["error"]
    assert "no text" in answer["error"]


@pytest.mark.requirement("002.document.folders")
async def test_files_outside_the_allowed_folders_are_refused(tools: PlainTransport) -> None:
    answer = await tools.call("manage_document", action="create", file_path="/etc/hostname.txt")
    assert "outside the allowed folders" in answer["error"]


@pytest.mark.requirement("002.document.get")
async def test_get_update_and_delete_a_document(client: Transport, paper: Path) -> None:
    created = (await client.call("manage_document", action="create", file_path=str(paper)))["document"]
    wanted = {"document_id": created["id"]}
    updated = await client.call(
        "manage_document", action="update", title="Updated Title", metadata={"reviewed": True}, **wanted
    )
    assert updated["message"] == "Document updated successfully"
    got = (await client.call("manage_document", action="get", **wanted))["document"]
    assert (got["title"], got["metadata"]["reviewed"]) == ("Updated Title", True)
    gone = await client.call("manage_document", action="delete", **wanted)
    assert gone["message"] == "Document and associated chunks deleted successfully"
    missing = await client.call("manage_document", action="get", **wanted)
    assert missing["suggestion"] == "Verify document_id or use manage_document(action='list')"
    assert (await client.call("search_knowledge_base", query="coroutine"))["count"] == 0


@pytest.mark.requirement("002.document.list")
async def test_lists_have_at_most_twenty_items_and_show_the_limit(tools: PlainTransport, product: Product) -> None:
    source = (await tools.call("manage_source", action="create", title="Many"))["source"]["id"]
    for number in range(22):
        path = product.files_folder / f"note{number}.txt"
        path.write_text(f"cup number {number}")
        await tools.call("manage_document", action="create", file_path=str(path), source_id=source)
    answer = await tools.call("manage_document", action="list", source_id=source, per_page=1000)
    assert (answer["per_page"], answer["count"], answer["total_count"], answer["page"]) == (20, 20, 22, 1)
    assert {"id", "title", "source_id", "document_type", "chunks_count", "created_at"} <= set(answer["documents"][0])
    rest = await tools.call("manage_document", action="list", source_id=source, per_page=20, page=2)
    assert rest["count"] == 2


@pytest.mark.requirement("mcp.refusals.web_address")
async def test_a_web_address_is_answered_with_the_call_that_crawls(tools: PlainTransport) -> None:
    answer = await tools.call("manage_document", action="create", file_path="https://example.org/guide.pdf")
    assert answer["error"] == "Invalid value for 'file_path': must be the path of a file, not a web address"
    assert answer["suggestion"] == "Call crawl_website(url='https://example.org/guide.pdf') to add web pages"


@pytest.mark.requirement("mcp.refusals.names")
async def test_a_misnamed_query_is_answered_with_both_names(tools: PlainTransport) -> None:
    answer = await tools.call("search_knowledge_base", q="tea")
    assert answer["error"] == "query is required for this operation. Unknown parameter: q"
    assert answer["suggestion"] == "Did you mean 'query' instead of 'q'? search_knowledge_base(...)"


@pytest.mark.requirement("002.document.move")
async def test_a_document_can_be_moved_to_another_source(tools: PlainTransport, paper: Path) -> None:
    source = (await tools.call("manage_source", action="create", title="Elsewhere"))["source"]["id"]
    document = (await tools.call("manage_document", action="create", file_path=str(paper)))["document"]["id"]
    moved = await tools.call("manage_document", action="update", document_id=document, source_id=source)
    assert moved["document"]["source_id"] == source


@pytest.mark.requirement("002.source.create")
async def test_a_source_is_created_in_the_contracts_shape(client: Transport) -> None:
    answer = await client.call(
        "manage_source", action="create", title="Python Docs", url="https://docs.python.org/3/", source_type="crawl"
    )
    source = answer["source"]
    assert set(source) == {
        "id", "title", "url", "source_type", "status", "documents_count", "created_at", "updated_at",
    }  # fmt: skip
    assert (source["title"], source["source_type"], source["status"]) == ("Python Docs", "crawl", "active")
    assert (source["url"], source["documents_count"]) == ("https://docs.python.org/3/", 0)
    assert answer["message"] == "Source created successfully"


@pytest.mark.requirement("002.source.lifecycle")
async def test_get_list_update_and_delete_a_source(client: Transport, paper: Path) -> None:
    source = (await client.call("manage_source", action="create", title="Research Papers"))["source"]["id"]
    await client.call("manage_document", action="create", file_path=str(paper), source_id=source)
    got = (await client.call("manage_source", action="get", source_id=source))["source"]
    assert (got["documents_count"], got["title"]) == (1, "Research Papers")
    updated = await client.call("manage_source", action="update", source_id=source, title="Papers")
    assert (updated["source"]["title"], updated["message"]) == ("Papers", "Source updated successfully")
    listed = await client.call("manage_source", action="list", per_page=99)
    assert (listed["total_count"], listed["count"], listed["page"], listed["per_page"]) == (1, 1, 1, 20)
    assert {"id", "title", "source_type", "documents_count", "status", "created_at"} <= set(listed["sources"][0])
    gone = await client.call("manage_source", action="delete", source_id=source)
    assert gone["message"] == "Source and all associated documents deleted successfully"
    assert (await client.call("manage_source", action="get", source_id=source))["success"] is False
    assert (await client.call("search_knowledge_base", query="coroutine"))["count"] == 0


@pytest.mark.requirement("002.source.delete_while_searching")
async def test_a_source_is_deleted_atomically_while_searches_run(tools: PlainTransport, product: Product) -> None:
    source = (await tools.call("manage_source", action="create", title="Short-lived"))["source"]["id"]
    for number in range(10):
        path = product.files_folder / f"cup{number}.txt"
        path.write_text(f"kettle number {number} whistles")
        await tools.call("manage_document", action="create", file_path=str(path), source_id=source)
    searches = [asyncio.create_task(tools.call("search_knowledge_base", query="kettle whistles")) for _ in range(30)]
    await tools.call("manage_source", action="delete", source_id=source)
    answers = await asyncio.gather(*searches)
    assert all(answer["success"] for answer in answers)
    assert {answer["count"] for answer in answers} <= {0, 10}, "all of it or nothing"
    assert await product.engine.verify() == []


@pytest.mark.requirement("002.source.unknown")
async def test_an_unknown_action_is_refused_with_the_valid_actions(client: Transport) -> None:
    answer = await client.call("manage_source", action="invalid_action")
    assert answer["error"] == "Unknown action: invalid_action"
    assert answer["suggestion"].startswith("Use 'create', 'get', 'list', 'update', or 'delete'")
