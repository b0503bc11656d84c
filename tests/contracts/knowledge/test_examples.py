"""Contract 000: compares every response that the contract prints with the server's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import websockets

from tests.contracts.knowledge.conftest import Product
from tests.contracts.knowledge.samples import write_pdf, write_sample
from tests.contracts.knowledge.test_add import wait_for_task
from tests.contracts.knowledge.test_progress import PAGES, write_long_text
from tests.contracts.transports import WAIT_SECONDS, Body, PlainTransport, Transport, WebSocketTransport

ASYNC: dict[str, Any] = {"async": True}
FIXED = ("success", "error", "status", "jsonrpc", "method", "type", "name", "listChanged")
"""Fields whose values must be equal; of other fields only the type is compared."""


def check_shape(shown: Any, given: Any, place: str = "") -> None:
    """Check that every field of the contract is present and has the same type."""
    if isinstance(shown, dict):
        assert isinstance(given, dict), place
        for name, value in shown.items():
            assert name in given, f"{place}.{name} is missing in {given}"
            if name in FIXED and not isinstance(value, dict):
                assert given[name] == value, f"{place}.{name}"
            check_shape(value, given[name], f"{place}.{name}")
    elif isinstance(shown, list):
        assert isinstance(given, list) and (bool(given) or not shown), place
        for one in given if shown and isinstance(shown[0], dict) else ():
            check_shape(shown[0], one, f"{place}[]")
    else:
        kinds = (int, float) if isinstance(shown, float) else type(shown)
        assert isinstance(given, kinds) and isinstance(given, bool) is isinstance(shown, bool), f"{place}: {given!r}"


Scenario = Callable[[Transport, Path], Awaitable[Body]]


async def add_sample(client: Transport, files_folder: Path, name: str = "", **arguments: Any) -> Body:
    path = write_sample(
        files_folder / (name or f"{uuid4().hex}.pdf"), "To configure authentication, set up the OAuth2 provider"
    )
    return await client.call("knowledge-add", file_path=str(path), **{"async": False, **arguments})


async def add_async(client: Transport, files_folder: Path) -> Body:
    answer = await add_sample(client, files_folder, **ASYNC)
    await wait_for_task(client, answer["task_id"])
    return answer


async def search(client: Transport, files_folder: Path) -> Body:
    await add_sample(client, files_folder)
    return await client.call("knowledge-search", query="How to configure authentication?")


async def search_without_hits(client: Transport, files_folder: Path) -> Body:
    await add_sample(client, files_folder)
    return await client.call("knowledge-search", query="non-existent topic", filters={"format": "xlsx"})


async def remove(client: Transport, files_folder: Path) -> Body:
    added = await add_sample(client, files_folder)
    return await client.call("knowledge-remove", document_id=added["document_id"], confirm=True)


async def remove_unconfirmed(client: Transport, files_folder: Path) -> Body:
    added = await add_sample(client, files_folder)
    return await client.call("knowledge-remove", document_id=added["document_id"])


async def show(client: Transport, files_folder: Path) -> Body:
    await add_sample(client, files_folder)
    await add_sample(client, files_folder, f"{uuid4().hex}.html")
    return await client.call("knowledge-show")


async def clear(client: Transport, files_folder: Path) -> Body:
    await add_sample(client, files_folder)
    return await client.call("knowledge-clear", confirm=True, confirmation_phrase="DELETE ALL")


async def add_too_large_file(client: Transport, files_folder: Path) -> Body:
    path = files_folder / "too-large.txt"
    path.write_bytes(b"words " * (250 << 10))
    return await client.call("knowledge-add", file_path=str(path))


async def show_status(client: Transport, files_folder: Path) -> Body:
    await add_sample(client, files_folder)
    return await client.call("knowledge-status")


async def wait_until_running(client: Transport, files_folder: Path) -> Body:
    added = await client.call("knowledge-add", file_path=str(write_long_text(files_folder)))
    task = added["task_id"]
    async with asyncio.timeout(WAIT_SECONDS):
        while (answer := await client.call("knowledge-task-status", task_id=task))["status"] != "running":
            pass
    await client.rpc("tools/cancel", {"taskId": task})
    return answer


async def wait_until_completed(client: Transport, files_folder: Path) -> Body:
    answer = await add_sample(client, files_folder, **ASYNC)
    return await wait_for_task(client, answer["task_id"])


async def wait_until_failed(client: Transport, files_folder: Path) -> Body:
    added = await client.call("knowledge-add", file_path=str(write_sample(files_folder / f"{uuid4().hex}.md", "  ")))
    return await wait_for_task(client, added["task_id"])


def make_scenario(tool: str, **arguments: Any) -> Scenario:
    async def scenario(client: Transport, _: Path) -> Body:
        return await client.call(tool, **arguments)

    return scenario


ANSWERS: dict[str, tuple[Scenario, Body]] = {
    "add, asynchronous": (
        add_async,
        {"success": True, "task_id": "id", "message": "Document queued for processing", "estimated_time_seconds": 30.0},
    ),
    "add, synchronous": (
        add_sample,
        {
            "success": True, "document_id": "id", "filename": "example.pdf", "chunks_created": 45,
            "processing_method": "text_extraction", "processing_time_seconds": 12.5,
        },
    ),
    "unsupported_format": (
        make_scenario("knowledge-add", file_path="/test/doc.xyz"),
        {
            "success": False, "error": "unsupported_format",
            "message": "Unsupported file format: .xyz. Use PDF, DOCX, PPTX, XLSX, HTML, JPG, PNG, or SVG",
            "supported_formats": ["pdf", "docx", "pptx", "xlsx", "html", "jpg", "png", "svg"],
        },
    ),
    "file_too_large": (
        add_too_large_file,
        {"success": False, "error": "file_too_large", "message": "File size (150 MB) exceeds …", "max_size_mb": 100},
    ),
    "search": (
        search,
        {
            "success": True, "query": "How to configure authentication?", "total_results": 1, "search_time_ms": 125.0,
            "results": [
                {
                    "document_id": "id", "chunk_id": "id", "filename": "auth-guide.pdf", "chunk_text": "To configure",
                    "relevance_score": 0.89,
                    "metadata": {"format": "pdf", "page_num": 5, "date_added": "2025-10-26T10:00:00Z"},
                }
            ],
        },
    ),
    "no results": (
        search_without_hits,
        {
            "success": True, "query": "non-existent topic", "results": [], "total_results": 0,
            "message": "No documents found matching your query", "search_time_ms": 50.0,
        },
    ),
    "empty_knowledge_base": (
        make_scenario("knowledge-search", query="anything"),
        {
            "success": False, "error": "empty_knowledge_base", "document_count": 0,
            "message": "Knowledge base is empty. Add documents with knowledge-add first",
        },
    ),
    "remove": (
        remove,
        {
            "success": True, "document_id": "id", "filename": "old-document.pdf", "chunks_removed": 45,
            "message": "Document removed successfully",
        },
    ),
    "remove, unconfirmed": (
        remove_unconfirmed,
        {
            "success": False, "error": "confirmation_required", "message": "Set confirm=true to remove this document",
            "document": {"id": "id", "filename": "important.pdf", "chunks": 45},
        },
    ),
    "document_not_found": (
        make_scenario("knowledge-remove", document_id="uuid-v4-doc-id", confirm=True),
        {
            "success": False, "error": "document_not_found", "document_id": "uuid-v4-doc-id",
            "message": "Document with ID 'uuid-v4-doc-id' not found",
        },
    ),
    "show": (
        show,
        {
            "success": True, "total_count": 2, "limit": 100, "offset": 0,
            "documents": [
                {
                    "id": "id", "filename": "api-documentation.pdf", "format": "pdf", "size_bytes": 2048576,
                    "date_added": "2025-10-26T10:00:00Z", "chunk_count": 45, "processing_status": "completed",
                    "processing_method": "text_extraction",
                }
            ],
        },
    ),
    "show, empty": (
        make_scenario("knowledge-show"),
        {"success": True, "documents": [], "total_count": 0, "message": "Knowledge base is empty"},
    ),
    "clear": (
        clear,
        {
            "success": True, "documents_removed": 42, "embeddings_removed": 1850, "storage_freed_mb": 125.5,
            "message": "Knowledge base cleared successfully",
        },
    ),
    "clear, unconfirmed": (
        make_scenario("knowledge-clear", confirm=False, confirmation_phrase=""),
        {
            "success": False, "error": "confirmation_required", "current_document_count": 42,
            "message": "This action will delete ALL documents. Set confirm=true and "
            "confirmation_phrase='DELETE ALL' to proceed",
        },
    ),
    "status": (
        show_status,
        {
            "success": True,
            "knowledge_base": {
                "name": "default", "document_count": 42, "total_chunks": 1850, "total_size_bytes": 131072000,
                "total_size_mb": 125.0, "average_chunks_per_document": 44.0, "storage_path": "/data/documents",
                "vector_db_path": "/data/chromadb",
            },
            "health": {
                "status": "healthy", "vector_db_connected": True, "storage_accessible": True,
                "embedding_model_loaded": True,
            },
            "configuration": {"embedding_model": "model", "chunk_size": 500, "max_file_size_mb": 100},
            "last_updated": "2025-10-26T14:30:00Z",
        },
    ),
    "task, running": (
        wait_until_running,
        {
            "success": True, "task_id": "id", "status": "running", "progress": 0.65,
            "current_step": "Generating embeddings", "completed_steps": 13, "total_steps": 20,
            "elapsed_time_seconds": 15.5, "estimated_remaining_seconds": 8.2,
        },
    ),
    "task, completed": (
        wait_until_completed,
        {
            "success": True, "task_id": "id", "status": "completed", "progress": 1.0, "total_time_seconds": 23.7,
            "result": {"document_id": "id", "filename": "example.pdf", "chunks_created": 45},
        },
    ),
    "task, failed": (
        wait_until_failed,
        {
            "success": False, "task_id": "id", "status": "failed", "error": "no_text_found", "message": "why",
            "elapsed_time_seconds": 5.2,
        },
    ),
}  # fmt: skip


@pytest.mark.requirement("000.protocol.examples")
@pytest.mark.parametrize("name", ANSWERS)
async def test_each_response_of_the_contract_has_its_documented_shape(
    name: str, client: Transport, files_folder: Path
) -> None:
    scenario, expected = ANSWERS[name]
    answer = await scenario(client, files_folder)
    check_shape(expected, answer)
    message = expected.get("message")
    if isinstance(message, str) and "…" not in message and message != "why":
        assert answer["message"] == message


@pytest.mark.requirement("000.protocol.examples")
async def test_a_protocol_error_has_its_documented_shape(product: Product) -> None:
    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http:
        answer = await PlainTransport(http).rpc("tools/dance")
    error = {"code": -32000, "message": "Error description", "data": {"error_type": "validation_error", "details": {}}}
    check_shape({"jsonrpc": "2.0", "id": "1", "error": error}, answer)


@pytest.mark.requirement("000.protocol.examples")
async def test_progress_has_its_documented_shape(product: Product, files_folder: Path) -> None:
    path = files_folder / f"{uuid4().hex}.pdf"
    write_pdf(path, *(f"Page {number} tells of {uuid4().hex}" for number in range(1, PAGES + 1)))
    async with websockets.connect(f"{product.url.replace('http', 'ws', 1)}/mcp") as connection:
        socket = WebSocketTransport(connection)
        call = {"name": "knowledge-add", "arguments": {"file_path": str(path), "async": False}}
        await socket.rpc("tools/call", {**call, "_meta": {"progressToken": "task-uuid"}})
    params = {"progressToken": "task-uuid", "progress": 0.5, "total": 1.0, "message": "Processing page 5 of 10"}
    for notification in socket.notifications:
        check_shape({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, notification)
    assert any(
        notification["params"]["message"].startswith("Processing page ") for notification in socket.notifications
    )


@pytest.mark.requirement("000.protocol.examples")
def test_the_http_request_of_the_contract_gets_its_documented_response(product: Product) -> None:
    params = {"name": "knowledge-search", "arguments": {"query": "authentication", "top_k": 5}}
    message = {"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": params}
    answer = httpx.post(f"{product.url}/mcp", json=message, timeout=WAIT_SECONDS).json()
    check_shape({"jsonrpc": "2.0", "id": "1", "result": {"content": [{"type": "text", "text": "{}"}]}}, answer)
    assert answer["id"] == "1"
