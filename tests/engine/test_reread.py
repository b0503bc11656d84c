"""Documents that OCR read before the boxes of words were stored are read again."""

from __future__ import annotations

import asyncio

from sqlalchemy import delete

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller, Content, Document, JobFilter, JobKind, JobStatus, NewFile
from knowledge.model.pages import PlacesNote, WordSource
from knowledge.store import schema
from knowledge.testing import SharedParsers, make_test_engine
from tests.data.extract import documents
from tests.support import pdfs
from tests.support.engines import add_file, wait_until_done


async def add_old_scan(engine: Engine, local: LocalEngine, name: str = "scan.png", turned: int = 0) -> Document:
    """Add an image and delete its boxes, as if an older version had read it."""
    data = documents.encode_image(pdfs.draw_scan(turned)[0], "PNG")
    job = await wait_until_done(engine, await engine.add(NewFile(filename=name, content=Content.from_bytes(data))))
    assert job.document_id is not None
    local._parts.database.write(lambda connection: connection.execute(delete(schema.page_words)))
    return await engine.document(job.document_id)


async def wait_for_rereads(engine: Engine) -> None:
    async with asyncio.timeout(60):
        while (await engine.reread(start=False)).waiting:
            await asyncio.sleep(0.01)


async def test_a_document_read_before_boxes_says_so_until_it_is_read_again(engine: Engine, local: LocalEngine) -> None:
    document = await add_old_scan(engine, local)
    chunks = await engine.chunks(document.id)
    places = await engine.pages.places(document.id, 0, len(chunks) - 1)
    assert (places.note, [place.boxes for place in places.places]) == (PlacesNote.READ_BEFORE_BOXES, [()] * len(chunks))
    status = await engine.reread()
    assert (status.queued, status.waiting) == (1, 1)
    await wait_for_rereads(engine)
    places = await engine.pages.places(document.id, 0, len(chunks) - 1)
    assert places.note is None
    assert all(place.coverage > 0.9 and place.boxes for place in places.places)
    assert (await engine.pages.words(document.id, 1)).source is WordSource.OCR
    assert await engine.chunks(document.id) == chunks  # with the same ids and texts
    assert await engine.document(document.id) == document


async def test_only_what_has_no_boxes_is_read_again(engine: Engine, local: LocalEngine) -> None:
    await add_file(engine, "tea.md", "# Tea\n\nThe kettle whistles.")
    await add_old_scan(engine, local)
    assert (await engine.reread()).queued == 1
    await wait_for_rereads(engine)
    assert (await engine.reread()).queued == 0
    listed = (await engine.jobs(JobFilter(kind=JobKind.REREAD))).items
    assert [(job.filename, job.status) for job in listed] == [("scan.png", JobStatus.COMPLETED)]


async def test_two_requests_queue_one_job_per_document(engine: Engine, local: LocalEngine) -> None:
    await add_old_scan(engine, local)
    local._parts.workers.close()  # jobs stay queued
    assert [(await engine.reread()).queued for _ in range(2)] == [1, 0]
    assert (await engine.reread(start=False)).waiting == 1


async def test_a_queued_job_goes_on_after_a_restart_and_ends_if_its_document_is_gone(
    settings: Settings, parsers: SharedParsers
) -> None:
    opened = make_test_engine(settings, parsers=parsers)
    opened.start()
    engine = opened.as_caller(Caller())
    first, second = await add_old_scan(engine, opened, "a.png"), await add_old_scan(engine, opened, "b.png", 180)
    opened._parts.workers.close()  # jobs stay queued
    assert (await engine.reread()).queued == 2
    await engine.remove(first.id)
    opened.close()
    again = make_test_engine(settings, parsers=parsers)
    again.start()
    try:
        engine = again.as_caller(Caller())
        await wait_for_rereads(engine)
        jobs = (await engine.jobs(JobFilter(kind=JobKind.REREAD))).items
        assert {job.filename: job.status for job in jobs} == {
            "(removed)": JobStatus.CANCELLED,
            "b.png": JobStatus.COMPLETED,
        }
        assert (await engine.pages.words(second.id, 1)).source is WordSource.OCR
    finally:
        again.close()
