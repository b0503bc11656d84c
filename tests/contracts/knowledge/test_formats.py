"""Contract 000: the eight formats, images and scans, from the file to the hit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from knowledge.config import Settings
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import make_app, serve_app_in_thread
from tests.contracts.knowledge.conftest import clear_knowledge_base
from tests.contracts.knowledge.samples import write_sample, write_scan
from tests.contracts.knowledge.test_add import wait_for_task
from tests.contracts.transports import Body, Transport, open_transport

FORMATS = ["pdf", "docx", "pptx", "xlsx", "html", "jpg", "png", "svg"]
HURRIED: dict[str, Any] = {"ocr_languages": "tlh", "wait_s": 0.001}


async def add(client: Transport, path: Path, **arguments: object) -> Body:
    return await client.call("knowledge-add", file_path=str(path), **{"async": False}, **arguments)


@pytest.mark.requirement("000.add.formats")
@pytest.mark.requirement("000.add.image")
async def test_a_document_of_each_format_is_added_and_found(client: Transport, files_folder: Path) -> None:
    for suffix in FORMATS:
        added = await add(
            client, write_sample(files_folder / f"{uuid4().hex}.{suffix}", "The kettle is in the kitchen")
        )
        assert added["success"] is True, added
        assert added["processing_method"] == ("image_analysis" if suffix in ("jpg", "png") else "text_extraction")
        answer = await client.call("knowledge-search", query="where is the kettle", filters={"format": suffix})
        [hit] = answer["results"]
        assert (hit["document_id"], hit["metadata"]["format"]) == (added["document_id"], suffix)
        assert "kettle" in hit["chunk_text"].lower()
    documents = (await client.call("knowledge-show", sort_order="asc"))["documents"]
    assert [document["format"] for document in documents] == FORMATS


@pytest.mark.requirement("000.add.ocr")
async def test_a_scanned_document_is_read_page_by_page(client: Transport, files_folder: Path) -> None:
    path = files_folder / f"{uuid4().hex}.pdf"
    write_scan(path, "The first kettle", "The second teapot")
    added = await add(client, path)
    assert added["processing_method"] == "ocr"
    [best, *_] = (await client.call("knowledge-search", query="teapot"))["results"]
    assert best["metadata"]["page_num"] == 2


@pytest.mark.requirement("000.add.force_ocr")
async def test_force_ocr_ignores_the_text_layer(client: Transport, files_folder: Path) -> None:
    path = write_sample(files_folder / f"{uuid4().hex}.pdf", "The kettle is in the kitchen")
    added = await add(client, path, force_ocr=True)
    assert added["processing_method"] == "ocr"
    answer = await client.call("knowledge-search", query="kettle")
    assert "kettle" in answer["results"][0]["chunk_text"].lower()


@pytest.fixture(scope="module")
def hurried(parsers: SharedParsers, files_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without an OCR language that does not wait for jobs."""
    settings = Settings(data=tmp_path_factory.mktemp("hurried"), workers=1, **HURRIED)
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    with serve_app_in_thread(make_app(engine, settings, files_folder)) as url:
        yield url
    engine.close()


@pytest.fixture
async def impatient(hurried: str) -> AsyncIterator[Transport]:
    async with open_transport("plain", hurried, None) as there:
        await clear_knowledge_base(there)
        yield there


@pytest.mark.requirement("000.add.ocr_failed")
async def test_a_missing_ocr_language_is_ocr_failed(impatient: Transport, files_folder: Path) -> None:
    path = write_sample(files_folder / f"{uuid4().hex}.png", "Boiling kettle")
    added = await impatient.call("knowledge-add", file_path=str(path))
    status = await wait_for_task(impatient, added["task_id"])
    assert (status["success"], status["status"], status["error"]) == (False, "failed", "ocr_failed")
    assert status["message"] == "OCR processing failed: there is no data for the language 'tlh'"
    assert (await impatient.call("knowledge-show"))["total_count"] == 0


@pytest.mark.requirement("000.add.wait")
async def test_a_synchronous_add_that_takes_too_long_continues_as_a_task(
    impatient: Transport, files_folder: Path
) -> None:
    path = write_sample(files_folder / f"{uuid4().hex}.pdf", "The kettle is in the kitchen")
    answer = await add(impatient, path)
    assert answer["success"] is True
    assert answer["status"] in ("queued", "running")
    assert "Still processing" in answer["message"]
    assert (await wait_for_task(impatient, answer["task_id"]))["status"] == "completed"
