"""Contract 000: the eight formats, pictures and scans, from the file to the answer."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from knowledge.config import Settings
from knowledge.testing import SharedParsers, small_engine
from tests.contracts.knowledge.samples import scan, write
from tests.contracts.knowledge.test_add import finished
from tests.contracts.roads import Body, Plain, Road
from tests.contracts.serving import application, serving

FORMATS = ["pdf", "docx", "pptx", "xlsx", "html", "jpg", "png", "svg"]


async def add(plain: Road, path: Path, **arguments: object) -> Body:
    return await plain.call("knowledge-add", file_path=str(path), **{"async": False}, **arguments)


@pytest.mark.requirement("000.add.formats")
@pytest.mark.parametrize("suffix", FORMATS)
async def test_a_document_of_each_format_is_added_and_found(suffix: str, plain: Road, shelf: Path) -> None:
    path = write(shelf / f"{uuid4().hex}.{suffix}", "The kettle is in the kitchen")
    added = await add(plain, path)
    assert added["success"] is True, added
    answer = await plain.call("knowledge-search", query="where is the kettle", filters={"format": suffix})
    [hit] = answer["results"]
    assert hit["document_id"] == added["document_id"]
    assert hit["metadata"]["format"] == suffix
    assert "kettle" in hit["chunk_text"].lower()
    [document] = (await plain.call("knowledge-show"))["documents"]
    assert document["format"] == suffix


@pytest.mark.requirement("000.add.image")
@pytest.mark.parametrize("suffix", ["jpg", "png"])
async def test_the_text_of_a_picture_is_read_from_it(suffix: str, plain: Road, shelf: Path) -> None:
    added = await add(plain, write(shelf / f"{uuid4().hex}.{suffix}", "Boiling kettle"))
    assert added["processing_method"] == "image_analysis"


@pytest.mark.requirement("000.add.ocr")
async def test_a_scanned_document_is_read_page_by_page(plain: Road, shelf: Path) -> None:
    path = shelf / f"{uuid4().hex}.pdf"
    scan(path, "The first kettle", "The second teapot")
    added = await add(plain, path)
    assert added["processing_method"] == "ocr"
    [best, *_] = (await plain.call("knowledge-search", query="teapot"))["results"]
    assert best["metadata"]["page_num"] == 2


@pytest.mark.requirement("000.add.force_ocr")
async def test_force_ocr_reads_what_can_be_seen_although_there_is_text(plain: Road, shelf: Path) -> None:
    path = write(shelf / f"{uuid4().hex}.pdf", "The kettle is in the kitchen")
    added = await add(plain, path, force_ocr=True)
    assert added["processing_method"] == "ocr"
    answer = await plain.call("knowledge-search", query="kettle")
    assert "kettle" in answer["results"][0]["chunk_text"].lower()


@pytest.mark.requirement("000.add.ocr_failed")
async def test_recognition_that_is_not_to_be_had_is_ocr_failed(
    parsers: SharedParsers, shelf: Path, tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path / "data", workers=1, ocr_languages="tlh")
    engine = small_engine(settings, parsers=parsers)
    engine.start()
    path = write(shelf / f"{uuid4().hex}.png", "Boiling kettle")
    async with serving(application(engine, settings, shelf)) as url, httpx.AsyncClient(base_url=url) as http:
        there = Plain(http)
        added = await there.call("knowledge-add", file_path=str(path))
        status = await finished(there, added["task_id"])
        empty = await there.call("knowledge-show")
    engine.close()
    assert (status["success"], status["status"], status["error"]) == (False, "failed", "ocr_failed")
    assert status["message"] == "OCR processing failed: there is no data for the language 'tlh'"
    assert empty["total_count"] == 0


@pytest.mark.requirement("000.add.wait")
async def test_a_synchronous_add_that_takes_too_long_goes_on_as_a_task(
    parsers: SharedParsers, shelf: Path, tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path / "data", workers=1, wait_s=0.01)
    engine = small_engine(settings, parsers=parsers)
    engine.start()
    path = write(shelf / f"{uuid4().hex}.pdf", "The kettle is in the kitchen")
    async with serving(application(engine, settings, shelf)) as url, httpx.AsyncClient(base_url=url) as http:
        there = Plain(http)
        answer = await there.call("knowledge-add", file_path=str(path), **{"async": False})
        ended = await finished(there, answer["task_id"])
    engine.close()
    assert answer["success"] is True
    assert answer["status"] in ("queued", "running")
    assert "Still processing" in answer["message"]
    assert ended["status"] == "completed"
