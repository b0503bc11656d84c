"""Contract 000: the eight formats, pictures and scans, from the file to the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from knowledge.config import Settings
from knowledge.testing import SharedParsers, small_engine
from tests.contracts.knowledge.conftest import empty
from tests.contracts.knowledge.samples import scan, write
from tests.contracts.knowledge.test_add import finished
from tests.contracts.roads import ROADS, Body, Process, Road, held, road
from tests.contracts.serving import application, serving_beside

FORMATS = ["pdf", "docx", "pptx", "xlsx", "html", "jpg", "png", "svg"]
HURRIED: dict[str, Any] = {"ocr_languages": "tlh", "wait_s": 0.001}


async def add(client: Road, path: Path, **arguments: object) -> Body:
    return await client.call("knowledge-add", file_path=str(path), **{"async": False}, **arguments)


@pytest.mark.requirement("000.add.formats")
@pytest.mark.requirement("000.add.image")
async def test_a_document_of_each_format_is_added_and_found(client: Road, shelf: Path) -> None:
    for suffix in FORMATS:
        added = await add(client, write(shelf / f"{uuid4().hex}.{suffix}", "The kettle is in the kitchen"))
        assert added["success"] is True, added
        assert added["processing_method"] == ("image_analysis" if suffix in ("jpg", "png") else "text_extraction")
        answer = await client.call("knowledge-search", query="where is the kettle", filters={"format": suffix})
        [hit] = answer["results"]
        assert (hit["document_id"], hit["metadata"]["format"]) == (added["document_id"], suffix)
        assert "kettle" in hit["chunk_text"].lower()
    documents = (await client.call("knowledge-show", sort_order="asc"))["documents"]
    assert [document["format"] for document in documents] == FORMATS


@pytest.mark.requirement("000.add.ocr")
async def test_a_scanned_document_is_read_page_by_page(client: Road, shelf: Path) -> None:
    path = shelf / f"{uuid4().hex}.pdf"
    scan(path, "The first kettle", "The second teapot")
    added = await add(client, path)
    assert added["processing_method"] == "ocr"
    [best, *_] = (await client.call("knowledge-search", query="teapot"))["results"]
    assert best["metadata"]["page_num"] == 2


@pytest.mark.requirement("000.add.force_ocr")
async def test_force_ocr_reads_what_can_be_seen_although_there_is_text(client: Road, shelf: Path) -> None:
    path = write(shelf / f"{uuid4().hex}.pdf", "The kettle is in the kitchen")
    added = await add(client, path, force_ocr=True)
    assert added["processing_method"] == "ocr"
    answer = await client.call("knowledge-search", query="kettle")
    assert "kettle" in answer["results"][0]["chunk_text"].lower()


@pytest.fixture(scope="module")
def hurried(parsers: SharedParsers, shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that knows no language to recognise, and does not wait."""
    settings = Settings(data=tmp_path_factory.mktemp("hurried"), workers=1, **HURRIED)
    engine = small_engine(settings, parsers=parsers)
    engine.start()
    with serving_beside(application(engine, settings, shelf)) as url:
        yield url
    engine.close()


@pytest.fixture(scope="module")
def hurried_process(shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    given = {f"KNOWLEDGE_{name.upper()}": str(value) for name, value in HURRIED.items()}
    started = Process(tmp_path_factory.mktemp("hurried"), KNOWLEDGE_FILES=str(shelf), KNOWLEDGE_WORKERS="1", **given)
    yield started
    started.close()


@pytest.fixture(params=ROADS)
async def impatient(request: pytest.FixtureRequest, hurried: str) -> AsyncIterator[Road]:
    process = request.getfixturevalue("hurried_process") if request.param == "stdio" else None
    async with held(road(request.param, hurried, process)) as there:
        await empty(there)
        yield there


@pytest.mark.requirement("000.add.ocr_failed")
async def test_recognition_that_is_not_to_be_had_is_ocr_failed(impatient: Road, shelf: Path) -> None:
    path = write(shelf / f"{uuid4().hex}.png", "Boiling kettle")
    added = await impatient.call("knowledge-add", file_path=str(path))
    status = await finished(impatient, added["task_id"])
    assert (status["success"], status["status"], status["error"]) == (False, "failed", "ocr_failed")
    assert status["message"] == "OCR processing failed: there is no data for the language 'tlh'"
    assert (await impatient.call("knowledge-show"))["total_count"] == 0


@pytest.mark.requirement("000.add.wait")
async def test_a_synchronous_add_that_takes_too_long_goes_on_as_a_task(impatient: Road, shelf: Path) -> None:
    path = write(shelf / f"{uuid4().hex}.pdf", "The kettle is in the kitchen")
    answer = await add(impatient, path)
    assert answer["success"] is True
    assert answer["status"] in ("queued", "running")
    assert "Still processing" in answer["message"]
    assert (await finished(impatient, answer["task_id"]))["status"] == "completed"
