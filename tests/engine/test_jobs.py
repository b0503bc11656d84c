"""Jobs: accepted at once, reported, cancelled, retried, and atomic."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.indexing import follower
from knowledge.engine.local import LocalEngine
from knowledge.errors import JobNotFound, NotNow, TooLarge
from knowledge.extract.base import Source
from knowledge.extract.process.fork_client import ForkServerClient
from knowledge.extract.process.parsers import Parsers
from knowledge.model import (
    Content,
    DocumentEdit,
    DocumentFilter,
    JobFilter,
    JobKind,
    JobStatus,
    NewFile,
    NewNote,
    Query,
)
from knowledge.testing import make_test_engine
from tests.support.engines import WAIT_SECONDS, add_note, make_file, wait_until_done


async def test_an_ended_job_reports_its_document_and_times(engine: Engine) -> None:
    job = await engine.add(make_file("one.txt", "first of all"))
    assert job.filename == "one.txt" and job.kind is JobKind.ADD
    ended = await wait_until_done(engine, job)
    assert ended.progress == 1.0 and ended.chunk_count == 1
    assert ended.started_at is not None and ended.completed_at is not None
    assert ended.document_uid == (await engine.document(ended.document_id or 0)).uid


async def test_progress_is_reported_while_a_job_is_waited_for(engine: Engine) -> None:
    steps: list[str] = []
    job = await engine.add(make_file("one.txt", "step by step"))
    await engine.wait(job.id, WAIT_SECONDS, lambda step, done, total: steps.append(step))
    assert steps


async def test_the_same_uid_again_is_the_same_job(engine: Engine) -> None:
    uid = uuid4()
    first = await engine.add(NewNote(text="once only", job_uid=uid))
    again = await engine.add(NewNote(text="once only", job_uid=uid))
    assert first.id == again.id and first.uid == uid
    await wait_until_done(engine, first)
    assert (await engine.documents(DocumentFilter())).total == 1


async def test_jobs_are_listed_newest_first_and_by_status(engine: Engine) -> None:
    good = await wait_until_done(engine, await engine.add(NewNote(text="good")))
    bad = await engine.wait((await engine.add(make_file("blank.txt", " "))).id, WAIT_SECONDS)
    page = await engine.jobs(JobFilter())
    assert [job.id for job in page.items] == [bad.id, good.id]
    assert [job.id for job in (await engine.jobs(JobFilter(status=JobStatus.FAILED))).items] == [bad.id]


async def test_an_unknown_job_is_not_found(engine: Engine) -> None:
    with pytest.raises(JobNotFound):
        await engine.job(10**9)


async def test_an_ended_job_can_be_neither_cancelled_nor_retried(engine: Engine) -> None:
    job = await wait_until_done(engine, await engine.add(NewNote(text="it is over")))
    with pytest.raises(NotNow):
        await engine.cancel(job.id)
    with pytest.raises(NotNow):
        await engine.retry(job.id)


async def test_a_file_over_the_limit_is_refused_while_it_arrives(engine: Engine) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b"x" * (1 << 20)

    with pytest.raises(TooLarge) as caught:
        await engine.add(NewFile(filename="big.txt", content=Content(endless)))
    assert caught.value.details["max_size_mb"] in (100, 101)  # of the file, or of the request around it
    assert (await engine.jobs(JobFilter())).total == 0


async def test_a_cancelled_job_leaves_nothing(local: LocalEngine) -> None:
    paragraphs = "\n\n".join(f"Paragraph {number} about rivers and hills." for number in range(40_000))
    job = await local.add(make_file("long.txt", paragraphs))
    ended = await local.cancel(job.id)
    assert ended.status is JobStatus.CANCELLED
    assert (await local.documents(DocumentFilter())).total == 0
    assert (await local.search(Query(text="rivers"))).hits == ()
    assert await local.verify() == []


async def test_notes_overtake_bulk_imports(local: LocalEngine) -> None:
    text = "\n\n".join(f"Paragraph {number} about rivers." for number in range(5_000))
    bulk = [await local.add(make_file(f"{number}.txt", f"{number}\n\n{text}")) for number in range(4)]
    note = await add_note(local, "quick as a note")
    assert note.id
    states = [(await local.job(job.id)).status for job in bulk]
    assert not all(state.has_ended for state in states)
    for job in bulk:
        with suppress(NotNow):
            await local.cancel(job.id)


async def test_a_job_whose_parser_dies_is_retried_twice_and_then_failed(settings: Settings) -> None:
    parsers = Parsers(parser="tests.data.extract.hostile_parsers:crashes")
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    try:
        job = await engine.add(make_file("deadly.md", "# It ends its reader"))
        ended = await engine.wait(job.id, WAIT_SECONDS)
        assert ended.status is JobStatus.FAILED
        assert ended.error is not None and ended.error.code == "parser_died"
        assert (await add_note(engine, "the server lives on")).id
        assert (await engine.retry(job.id)).status is JobStatus.QUEUED  # its original was kept for this
        assert (await engine.wait(job.id, WAIT_SECONDS)).status is JobStatus.FAILED
    finally:
        await asyncio.to_thread(engine.close)


async def test_a_cancel_between_the_claim_and_the_start_of_a_job_is_not_lost(
    settings: Settings, parsers: Parsers
) -> None:
    engine = make_test_engine(settings, parsers=parsers)  # not started: this test is the worker
    job = await engine.add(make_file("one.txt", "first of all"))
    claim = engine._parts.jobs.claim(most_urgent_only=False)
    assert claim is not None and claim.id == job.id
    cancelling = asyncio.create_task(engine.cancel(job.uid))
    for _ in range(10):  # meanwhile the cancel looks for the job, and finds it neither queued nor running
        await engine.job(job.id)
    engine._parts.progress.begin(job.id)
    async with asyncio.timeout(WAIT_SECONDS):
        while not engine._parts.progress.is_cancelled(job.id):
            await asyncio.sleep(0)
    engine._parts.jobs.mark_cancelled(claim)
    engine._parts.progress.end(job.id)
    assert (await cancelling).status is JobStatus.CANCELLED
    engine.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the fork server and /proc")
async def test_warming_up_loads_the_tokenizer_in_the_fork_server(settings: Settings, tmp_path: Path) -> None:
    """The tokenizer library is mapped in the fork server, and no file or job is left of the warm-up text."""
    text = tmp_path / "one.txt"
    text.write_text("first of all")
    with Parsers() as parsers:
        with parsers.parse(Source(text, "one.txt")) as parsing:  # from then on the formats are loaded
            assert [page.text for page in parsing] == ["first of all"]
        fork_server = parsers._launcher
        assert isinstance(fork_server, ForkServerClient) and fork_server._process is not None
        maps = Path(f"/proc/{fork_server._process.pid}/maps")
        before = maps.read_text()
        with closing(make_test_engine(settings, parsers=parsers)) as engine:
            engine._parts.ingest.warm_up()
            assert ("/tokenizers" in before, "/tokenizers" in maps.read_text()) == (False, True)
            assert [path for path in (settings.data / "files").rglob("*") if path.is_file()] == []
            assert (await engine.jobs(JobFilter())).total == 0


async def test_a_change_is_indexed_together_with_jobs_that_are_about_to_publish(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "GATHER_SECONDS", 10 * WAIT_SECONDS)
    indexer = local._parts.indexer
    await wait_until_done(local, await local.add(NewNote(text="alone with its thoughts")))
    with indexer.expect_change():
        beside = await local.add(NewNote(text="beside an import"))
        while local._parts.changes.newest_seq() < indexer.seq + 2:  # published by words, then with vectors
            await asyncio.sleep(0)
        assert (await local.job(beside.id)).status is JobStatus.PROCESSING
        assert indexer.changes_behind == 2
    assert (await wait_until_done(local, beside)).status is JobStatus.COMPLETED
    assert indexer.changes_behind == 0


async def test_a_caller_that_waits_for_a_change_does_not_wait_for_other_jobs(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "GATHER_SECONDS", 10 * WAIT_SECONDS)
    note = await wait_until_done(local, await local.add(NewNote(text="an old tale")))
    with local._parts.indexer.expect_change():
        await local.edit(note.document_id or 0, DocumentEdit(add_tags=("old",)))
        assert local._parts.indexer.changes_behind == 0
