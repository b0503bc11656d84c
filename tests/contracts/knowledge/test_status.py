"""Contract 000: knowledge-status and knowledge-task-status."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.contracts.knowledge.conftest import MAX_FILE_MB, Product, data_folder_of
from tests.contracts.knowledge.samples import write_sample
from tests.contracts.knowledge.test_add import wait_for_task
from tests.contracts.transports import Transport


@pytest.mark.requirement("000.status.answer")
async def test_the_status_has_counts_and_configuration(client: Transport, files_folder: Path) -> None:
    text = "The kettle is in the kitchen"
    path = write_sample(files_folder / "counted.md", text)
    await client.call("knowledge-add", file_path=str(path), **{"async": False})
    answer = await client.call("knowledge-status")
    assert answer["success"] is True
    base = answer["knowledge_base"]
    assert base["name"] == "default"
    assert (base["document_count"], base["total_chunks"], base["average_chunks_per_document"]) == (1, 1, 1.0)
    assert base["total_size_bytes"] == len(text)
    assert base["total_size_mb"] == round(len(text) / (1 << 20), 2)
    assert Path(base["storage_path"]).is_dir()
    assert Path(base["vector_db_path"]).is_dir()
    assert answer["configuration"]["max_file_size_mb"] == MAX_FILE_MB
    assert answer["configuration"]["chunk_size"] > 0
    assert answer["configuration"]["embedding_model"]
    assert answer["last_updated"].endswith("Z")


@pytest.mark.requirement("000.status.healthy")
async def test_a_healthy_status_has_no_issues(client: Transport) -> None:
    assert (await client.call("knowledge-status"))["health"] == {
        "status": "healthy",
        "vector_db_connected": True,
        "storage_accessible": True,
        "embedding_model_loaded": True,
    }


@pytest.mark.requirement("000.status.degraded")
async def test_a_degraded_status_lists_its_issues(client: Transport, product: Product) -> None:
    files = data_folder_of(client, product) / "files"
    away = files.with_name("away")
    files.rename(away)
    try:
        health = (await client.call("knowledge-status"))["health"]
    finally:
        away.rename(files)
    assert health["status"] == "degraded"
    assert health["storage_accessible"] is False
    assert health["issues"] == ["Storage directory not accessible: No such file or directory"]


@pytest.mark.requirement("000.status.parameters")
async def test_the_status_takes_no_arguments(client: Transport) -> None:
    answer = await client.call("knowledge-status", verbose=True)
    assert (answer["error"], answer["parameter"]) == ("invalid_parameter", "verbose")


@pytest.mark.requirement("000.task.completed")
async def test_a_completed_task_names_its_document(client: Transport, files_folder: Path) -> None:
    path = write_sample(files_folder / f"{uuid4().hex}.md", "The kettle is in the kitchen")
    added = await client.call("knowledge-add", file_path=str(path))
    status = await wait_for_task(client, added["task_id"])
    [document] = (await client.call("knowledge-show"))["documents"]
    assert status.pop("total_time_seconds") >= 0
    assert status == {
        "success": True,
        "task_id": added["task_id"],
        "status": "completed",
        "progress": 1.0,
        "result": {"document_id": document["id"], "filename": path.name, "chunks_created": 1},
    }


@pytest.mark.requirement("000.task.failed")
async def test_a_failed_task_reports_the_reason(client: Transport, files_folder: Path) -> None:
    path = write_sample(files_folder / f"{uuid4().hex}.md", " \n ")
    added = await client.call("knowledge-add", file_path=str(path))
    status = await wait_for_task(client, added["task_id"])
    assert status["success"] is False
    assert status["task_id"] == added["task_id"]
    assert status["status"] == "failed"
    assert status["error"] == "no_text_found"
    assert status["message"]
    assert status["elapsed_time_seconds"] >= 0


@pytest.mark.requirement("000.task.not_found")
async def test_an_unknown_task_is_refused(client: Transport) -> None:
    unknown = str(uuid4())
    answer = await client.call("knowledge-task-status", task_id=unknown)
    assert answer["success"] is False
    assert answer["error"] == "task_not_found"
    assert answer["task_id"] == unknown
    assert unknown in answer["message"]


@pytest.mark.requirement("000.task.parameters")
async def test_a_task_id_is_a_uuid(client: Transport) -> None:
    missing = await client.call("knowledge-task-status")
    assert (missing["error"], missing["parameter"]) == ("missing_required_parameter", "task_id")
    for wrong in ("uuid-v4-task-id", "", 2.5, "../../etc"):
        answer = await client.call("knowledge-task-status", task_id=wrong)
        assert (answer["error"], answer["parameter"]) == ("invalid_parameter", "task_id")
