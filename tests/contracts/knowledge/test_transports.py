"""Contract 000: each tool returns the same answers and errors on every transport."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.contracts.knowledge.conftest import MAX_FILE_MB
from tests.contracts.knowledge.samples import write_sample
from tests.contracts.knowledge.test_add import wait_for_task
from tests.contracts.transports import Body, Transport

TEXT = "The kettle is in the kitchen"


async def add_document(client: Transport, files_folder: Path, text: str = TEXT) -> Body:
    path = write_sample(files_folder / f"{uuid4().hex}.md", text)
    answer = await client.call("knowledge-add", file_path=str(path), **{"async": False})
    assert answer.pop("processing_time_seconds") > 0
    expected = {
        "success": True, "filename": path.name, "chunks_created": 1, "processing_method": "text_extraction",
    }  # fmt: skip
    assert {name: value for name, value in answer.items() if name != "document_id"} == expected
    return answer


@pytest.mark.requirement("000.protocol.transports")
async def test_knowledge_add_answers_on_every_transport(transport_client: Transport, files_folder: Path) -> None:
    added = await add_document(transport_client, files_folder)
    [document] = (await transport_client.call("knowledge-show"))["documents"]
    assert (document["id"], document["filename"]) == (added["document_id"], added["filename"])
    refused = await transport_client.call("knowledge-add", file_path="/test/doc.xyz")
    assert (refused["success"], refused["error"]) == (False, "unsupported_format")
    assert refused["message"] == "Unsupported file format: .xyz. Use PDF, DOCX, PPTX, XLSX, HTML, JPG, PNG, or SVG"
    assert refused["supported_formats"][:3] == ["pdf", "docx", "pptx"]


@pytest.mark.requirement("000.protocol.transports")
async def test_knowledge_search_answers_on_every_transport(transport_client: Transport, files_folder: Path) -> None:
    added = await add_document(transport_client, files_folder, f"# Übersicht\n\n{TEXT}. Der Kessel kostet 5 € 🫖.")
    answer = await transport_client.call("knowledge-search", query="Where is the kettle?", top_k=3)
    assert (answer["success"], answer["query"], answer["total_results"]) == (True, "Where is the kettle?", 1)
    [hit] = answer["results"]
    assert (hit["document_id"], hit["filename"]) == (added["document_id"], added["filename"])
    assert hit["metadata"]["section"] == ["Übersicht"]
    assert hit["chunk_text"].endswith("Der Kessel kostet 5 € 🫖.")
    refused = await transport_client.call("knowledge-search", query="kettle", top_k=51)
    assert (refused["success"], refused["error"], refused["parameter"]) == (False, "invalid_parameter", "top_k")


@pytest.mark.requirement("000.protocol.transports")
async def test_knowledge_remove_answers_on_every_transport(transport_client: Transport, files_folder: Path) -> None:
    added = await add_document(transport_client, files_folder)
    refused = await transport_client.call("knowledge-remove", document_id=added["document_id"])
    assert refused == {
        "success": False,
        "error": "confirmation_required",
        "message": "Set confirm=true to remove this document",
        "document": {"id": added["document_id"], "filename": added["filename"], "chunks": 1},
    }
    assert await transport_client.call("knowledge-remove", document_id=added["document_id"], confirm=True) == {
        "success": True,
        "document_id": added["document_id"],
        "filename": added["filename"],
        "chunks_removed": 1,
        "message": "Document removed successfully",
    }


@pytest.mark.requirement("000.protocol.transports")
async def test_knowledge_show_answers_on_every_transport(transport_client: Transport, files_folder: Path) -> None:
    assert (await transport_client.call("knowledge-show"))["message"] == "Knowledge base is empty"
    first, second = (
        await add_document(transport_client, files_folder),
        await add_document(transport_client, files_folder, "A lamp"),
    )
    answer = await transport_client.call("knowledge-show", limit=5, sort_order="asc")
    assert (answer["success"], answer["total_count"], answer["limit"], answer["offset"]) == (True, 2, 5, 0)
    assert [document["id"] for document in answer["documents"]] == [first["document_id"], second["document_id"]]
    assert [document["size_bytes"] for document in answer["documents"]] == [len(TEXT), len("A lamp")]
    refused = await transport_client.call("knowledge-show", sort_by="colour")
    assert (refused["success"], refused["error"], refused["parameter"]) == (False, "invalid_parameter", "sort_by")


@pytest.mark.requirement("000.protocol.transports")
async def test_knowledge_clear_answers_on_every_transport(transport_client: Transport, files_folder: Path) -> None:
    await add_document(transport_client, files_folder)
    refused = await transport_client.call("knowledge-clear", confirm=True, confirmation_phrase="delete all")
    assert (refused["success"], refused["error"]) == (False, "confirmation_required")
    assert refused["current_document_count"] == 1
    answer = await transport_client.call("knowledge-clear", confirm=True, confirmation_phrase="DELETE ALL")
    assert (answer["success"], answer["documents_removed"], answer["embeddings_removed"]) == (True, 1, 1)
    assert answer["message"] == "Knowledge base cleared successfully"


@pytest.mark.requirement("000.protocol.transports")
async def test_knowledge_status_answers_on_every_transport(transport_client: Transport, files_folder: Path) -> None:
    await add_document(transport_client, files_folder)
    answer = await transport_client.call("knowledge-status")
    assert (answer["success"], answer["health"]["status"]) == (True, "healthy")
    base = answer["knowledge_base"]
    assert (base["name"], base["document_count"], base["total_chunks"]) == ("default", 1, 1)
    assert base["total_size_bytes"] == len(TEXT)
    assert answer["configuration"]["max_file_size_mb"] == MAX_FILE_MB
    refused = await transport_client.call("knowledge-status", verbose=True)
    assert (refused["success"], refused["error"], refused["parameter"]) == (False, "invalid_parameter", "verbose")


@pytest.mark.requirement("000.protocol.transports")
async def test_knowledge_task_status_answers_on_every_transport(
    transport_client: Transport, files_folder: Path
) -> None:
    path = write_sample(files_folder / f"{uuid4().hex}.md", TEXT)
    added = await transport_client.call("knowledge-add", file_path=str(path))
    assert (added["success"], added["message"]) == (True, "Document queued for processing")
    status = await wait_for_task(transport_client, added["task_id"])
    assert (status["success"], status["status"], status["progress"]) == (True, "completed", 1.0)
    assert (status["result"]["filename"], status["result"]["chunks_created"]) == (path.name, 1)
    unknown = str(uuid4())
    refused = await transport_client.call("knowledge-task-status", task_id=unknown)
    assert (refused["success"], refused["error"], refused["task_id"]) == (False, "task_not_found", unknown)
