"""Contract 000, knowledge-add."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.contracts.knowledge.conftest import MAX_FILE_MB
from tests.contracts.knowledge.samples import write_sample
from tests.contracts.transports import WAIT_SECONDS, Body, Transport

FORMATS = ["pdf", "docx", "pptx", "xlsx", "html", "jpg", "png", "svg"]


def write_note(files_folder: Path, text: str, suffix: str = ".md") -> Path:
    return write_sample(files_folder / f"{uuid4().hex}{suffix}", text)


async def wait_for_task(client: Transport, task_id: str) -> Body:
    """Wait until a task has ended and return its status."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            status = await client.call("knowledge-task-status", task_id=task_id)
            if status["status"] not in ("queued", "running"):
                return status


@pytest.mark.requirement("000.add.async")
async def test_an_asynchronous_add_returns_a_task_that_completes_with_the_document(
    client: Transport, files_folder: Path
) -> None:
    path = write_note(files_folder, "# Kettle\n\nThe kettle is in the kitchen.")
    answer = await client.call("knowledge-add", file_path=str(path), metadata={"author": "John Doe"})
    assert set(answer) == {"success", "task_id", "message", "estimated_time_seconds"}
    assert answer["success"] is True
    assert answer["message"] == "Document queued for processing"
    assert UUID(answer["task_id"]).version == 4
    assert answer["estimated_time_seconds"] > 0
    status = await wait_for_task(client, answer["task_id"])
    assert status["status"] == "completed"
    assert status["result"]["filename"] == path.name


@pytest.mark.requirement("000.add.sync")
async def test_a_synchronous_add_returns_the_document(client: Transport, files_folder: Path) -> None:
    path = write_note(files_folder, "# Kettle\n\nThe kettle is in the kitchen.")
    answer = await client.call("knowledge-add", file_path=str(path), **{"async": False})
    assert set(answer) == {
        "success", "document_id", "filename", "chunks_created", "processing_method", "processing_time_seconds"
    }  # fmt: skip
    assert answer["success"] is True
    assert UUID(answer["document_id"]).version == 4
    assert answer["filename"] == path.name
    assert answer["chunks_created"] == 1
    assert answer["processing_method"] == "text_extraction"
    assert answer["processing_time_seconds"] > 0


@pytest.mark.requirement("000.add.metadata")
async def test_title_and_tags_are_taken_from_the_metadata(client: Transport, files_folder: Path) -> None:
    path = write_note(files_folder, "The kettle is in the kitchen.")
    metadata = {"author": "John Doe", "title": "Kettles", "tags": ["technical", "api-docs"]}
    await client.call("knowledge-add", file_path=str(path), metadata=metadata, **{"async": False})
    [document] = (await client.call("knowledge-show"))["documents"]
    assert document["title"] == "Kettles"
    assert document["tags"] == ["technical", "api-docs"]
    assert document["metadata"]["author"] == "John Doe"


@pytest.mark.requirement("000.add.parameters")
@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"file_path": 7}, "file_path"),
        ({"file_path": ""}, "file_path"),
        ({"file_path": "a.md", "metadata": "author"}, "metadata"),
        ({"file_path": "a.md", "metadata": {"tags": 3}}, "metadata.tags"),
        ({"file_path": "a.md", "force_ocr": "yes"}, "force_ocr"),
        ({"file_path": "a.md", "async": 1}, "async"),
    ],
)
async def test_an_argument_of_the_wrong_type_is_named_in_the_error(
    client: Transport, wrong: Body, parameter: str
) -> None:
    answer = await client.call("knowledge-add", **wrong)
    assert answer["success"] is False
    assert answer["error"] == "invalid_parameter"
    assert answer["parameter"] == parameter
    assert parameter in answer["message"]


@pytest.mark.requirement("000.add.missing")
async def test_a_missing_path_is_refused(client: Transport) -> None:
    for arguments in ({}, {"file_path": None}, {"async": True}):
        answer = await client.call("knowledge-add", **arguments)
        assert answer["success"] is False
        assert answer["error"] == "missing_required_parameter"
        assert answer["parameter"] == "file_path"
        assert answer["message"] == "Missing required parameter: file_path"


@pytest.mark.requirement("000.add.unknown")
async def test_an_unknown_argument_is_refused_with_the_valid_names(client: Transport) -> None:
    answer = await client.call("knowledge-add", file_path="a.md", colour="red")
    assert answer["error"] == "invalid_parameter"
    assert "colour" in answer["message"]
    assert answer["valid_parameters"] == ["file_path", "metadata", "force_ocr", "async"]


@pytest.mark.requirement("mcp.refusals.names")
async def test_a_misnamed_path_is_answered_with_both_names(client: Transport) -> None:
    answer = await client.call("knowledge-add", path="a.md")
    assert answer["error"] == "missing_required_parameter"
    assert answer["message"] == (
        "Missing required parameter: file_path. Unknown parameter: path (did you mean 'file_path'?)"
    )


@pytest.mark.requirement("mcp.refusals.web_address")
@pytest.mark.parametrize("address", ["https://example.org/guide.pdf", "HTTP://example.org/"])
async def test_a_web_address_is_answered_with_the_way_to_crawl(client: Transport, address: str) -> None:
    answer = await client.call("knowledge-add", file_path=address)
    assert (answer["error"], answer["parameter"]) == ("invalid_parameter", "file_path")
    assert "must be the path of a file, not a web address" in answer["message"]
    assert "crawl_website" in answer["hint"] and "knowledge crawl URL" in answer["hint"]


@pytest.mark.requirement("000.add.unsupported_format")
async def test_an_unknown_format_is_refused_with_the_list_even_without_a_file(
    client: Transport, files_folder: Path
) -> None:
    there = write_sample(files_folder / "doc.xyz", "words")
    for path in (there, files_folder / "nowhere.xyz", Path("/outside/doc.xyz")):
        answer = await client.call("knowledge-add", file_path=str(path))
        assert answer["success"] is False
        assert answer["error"] == "unsupported_format"
        assert answer["message"] == ("Unsupported file format: .xyz. Use PDF, DOCX, PPTX, XLSX, HTML, JPG, PNG, or SVG")
        assert answer["supported_formats"][:8] == FORMATS
        assert "md" in answer["supported_formats"]


@pytest.mark.requirement("000.add.file_too_large")
async def test_a_file_that_is_too_large_is_refused_with_both_sizes(client: Transport, files_folder: Path) -> None:
    path = files_folder / "large.txt"
    path.write_bytes(b"words " * (250 << 10))
    answer = await client.call("knowledge-add", file_path=str(path))
    assert answer["success"] is False
    assert answer["error"] == "file_too_large"
    assert answer["message"] == f"File size (1.46 MB) exceeds maximum allowed size ({MAX_FILE_MB} MB)"
    assert answer["max_size_mb"] == MAX_FILE_MB
    assert answer["file_size_mb"] == 1.46


@pytest.mark.requirement("000.add.file_not_found")
async def test_a_file_that_does_not_exist_is_refused(client: Transport, files_folder: Path) -> None:
    (files_folder / "folder.md").mkdir(exist_ok=True)
    for path in (files_folder / "nowhere.md", files_folder / "folder.md"):
        answer = await client.call("knowledge-add", file_path=str(path))
        assert answer["success"] is False
        assert answer["error"] == "file_not_found"
        assert str(path) in answer["message"]


@pytest.mark.requirement("000.add.access_denied")
async def test_nothing_outside_the_allowed_folders_is_opened(
    client: Transport, files_folder: Path, tmp_path: Path
) -> None:
    secret = write_sample(tmp_path / "secret.md", "the secret word")
    link, folder_link = files_folder / f"{uuid4().hex}.md", files_folder / uuid4().hex
    link.symlink_to(secret)
    folder_link.symlink_to(tmp_path)
    dotted = f"{files_folder}/../{os.path.relpath(secret, files_folder.parent)}"
    for path in (str(secret), dotted, str(link), str(folder_link / "secret.md"), str(tmp_path / "nowhere.md")):
        answer = await client.call("knowledge-add", file_path=path)
        assert answer["success"] is False
        assert answer["error"] == "access_denied"
    assert (await client.call("knowledge-show"))["total_count"] == 0


@pytest.mark.requirement("000.add.pipe")
async def test_a_named_pipe_is_refused_without_blocking(client: Transport, files_folder: Path) -> None:
    pipe = files_folder / f"{uuid4().hex}.md"
    os.mkfifo(pipe)
    answer = await client.call("knowledge-add", file_path=str(pipe))
    assert answer["error"] == "file_not_found"


@pytest.mark.requirement("000.add.duplicate")
async def test_a_duplicate_returns_the_existing_document(client: Transport, files_folder: Path) -> None:
    first = await client.call(
        "knowledge-add", file_path=str(write_note(files_folder, "the same words")), **{"async": False}
    )
    again = await client.call("knowledge-add", file_path=str(write_note(files_folder, "the same words")))
    assert again["success"] is True
    assert again["duplicate"] is True
    assert again["document_id"] == first["document_id"]
    assert (await client.call("knowledge-show"))["total_count"] == 1


@pytest.mark.requirement("000.add.replace")
async def test_a_changed_file_replaces_its_document(client: Transport, files_folder: Path) -> None:
    path = write_note(files_folder, "we meet on monday")
    first = await client.call("knowledge-add", file_path=str(path), **{"async": False})
    path.write_text("we meet on tuesday")
    second = await client.call("knowledge-add", file_path=str(path), **{"async": False})
    assert second["document_id"] == first["document_id"]
    [hit] = (await client.call("knowledge-search", query="when do we meet"))["results"]
    assert "tuesday" in hit["chunk_text"]


@pytest.mark.requirement("000.add.failed")
async def test_a_failed_add_reports_the_reason_and_leaves_nothing(client: Transport, files_folder: Path) -> None:
    path = write_note(files_folder, "   \n\n  ")
    answer = await client.call("knowledge-add", file_path=str(path), **{"async": False})
    assert answer["success"] is False
    assert answer["error"] == "no_text_found"
    assert answer["message"]
    status = await client.call("knowledge-status")
    assert status["knowledge_base"]["document_count"] == 0
    assert status["knowledge_base"]["total_size_bytes"] == 0


@pytest.mark.requirement("000.add.estimate")
async def test_the_estimate_grows_with_the_file(client: Transport, files_folder: Path) -> None:
    small = await client.call("knowledge-add", file_path=str(write_note(files_folder, "few words")))
    await wait_for_task(client, small["task_id"])
    large = await client.call(
        "knowledge-add", file_path=str(write_note(files_folder, "many different words " * 9000, ".txt"))
    )
    assert large["estimated_time_seconds"] > small["estimated_time_seconds"]
    await client.rpc("tools/cancel", {"taskId": large["task_id"]})
