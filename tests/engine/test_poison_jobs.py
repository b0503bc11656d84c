"""Crashes of the server: counted for the jobs that were running, which are quarantined and then failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from knowledge.config import Settings
from knowledge.engine import runtime
from knowledge.engine.jobs import workers
from knowledge.engine.jobs.workers import MAX_WAIT_SECONDS, ClaimScheduler
from knowledge.engine.local import LocalEngine
from knowledge.model import DocumentEdit, Job, JobStatus, NewNote, Scope
from knowledge.model.crawls import CrawledPage, NewCrawl, PageOutcome
from knowledge.store.crawls.crawls import NewFrontierEntry
from knowledge.store.jobs import recovery as job_recovery
from knowledge.store.jobs.recovery import Recovery
from knowledge.store.jobs.rows import MAX_UNCLEAN_STARTS, MAX_UNCLEAN_STARTS_ALONE, JobClaim
from knowledge.store.schema import jobs as table
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import WAIT_SECONDS, make_file, wait_until_done
from tests.support.hostile_models import DEADLY_WORD, HostileModel

LIMIT = MAX_UNCLEAN_STARTS + MAX_UNCLEAN_STARTS_ALONE


def claim_any(engine: LocalEngine) -> JobClaim:
    store = engine._parts.jobs
    claim = store.claim(most_urgent_only=False) or store.claim_alone()
    assert claim is not None
    return claim


def end_uncleanly(engine: LocalEngine, times: int = 1) -> Recovery:
    """Simulate in the store that a server claims the next job and is killed, and the recovery at the next start."""
    recovery = Recovery(0, (), ())
    for _ in range(times):
        claim_any(engine)
        recovery = job_recovery.recover_jobs(engine._parts.database)
    return recovery


def unclean_starts(engine: LocalEngine) -> dict[int, int]:
    with engine._parts.database.read() as connection:
        return {row.id: row.unclean_starts for row in connection.execute(table.select())}


@pytest.fixture
def stopped(settings: Settings, parsers: SharedParsers) -> Iterator[LocalEngine]:
    """An engine whose workers are not started: the test claims the jobs."""
    engine = make_test_engine(settings, parsers=parsers)
    yield engine
    if not engine.is_closed:
        engine.close()


@asynccontextmanager
async def started(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalEngine]:
    """Start the engine after crashes, without the delay that lets an operator cancel quarantined jobs."""
    monkeypatch.setattr(runtime, "ALONE_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(workers, "OUTSIDE_KILL_SECONDS", 0.0)
    engine.start()
    try:
        yield engine
    finally:
        await asyncio.to_thread(engine.close)


# -- counting ---------------------------------------------------------------------------------------


async def test_a_crash_counts_only_for_the_jobs_that_were_running(stopped: LocalEngine) -> None:
    running = [await stopped.add(make_file(f"{number}.txt", f"number {number}")) for number in range(2)]
    waiting = await stopped.add(make_file("later.txt", "it waits"))
    for _ in running:
        claim_any(stopped)
    recovery = job_recovery.recover_jobs(stopped._parts.database)
    assert recovery == Recovery(2, (), ())
    assert unclean_starts(stopped) == {running[0].id: 1, running[1].id: 1, waiting.id: 0}
    assert [(await stopped.job(job.id)).status for job in (*running, waiting)] == [JobStatus.QUEUED] * 3


async def test_a_clean_stop_counts_for_no_job_even_if_one_stayed_claimed(
    stopped: LocalEngine, settings: Settings, parsers: SharedParsers
) -> None:
    job = await stopped.add(make_file("one.txt", "it stays claimed, as if its store had been in trouble"))
    claim_any(stopped)
    stopped.close()
    again = make_test_engine(settings, parsers=parsers)
    assert job_recovery.recover_jobs(again._parts.database).interrupted == 0
    assert unclean_starts(again) == {job.id: 0}
    assert (await again.job(job.id)).status is JobStatus.QUEUED
    again.close()


async def test_after_two_crashes_a_job_is_quarantined(stopped: LocalEngine) -> None:
    job = await stopped.add(make_file("one.txt", "first of all"))
    assert end_uncleanly(stopped).alone == ()
    (named,) = end_uncleanly(stopped).alone
    assert (named.id, named.filename, named.unclean_starts) == (job.id, "one.txt", 2)
    assert stopped._parts.jobs.claim(most_urgent_only=False) is None
    claim = stopped._parts.jobs.claim_alone()
    assert claim is not None and claim.runs_alone


async def test_a_job_that_always_crashes_the_server_is_failed_and_can_be_retried(
    stopped: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await stopped.add(make_file("one.txt", "first of all"))
    recovery = end_uncleanly(stopped, LIMIT)
    assert [named.id for named in recovery.failed] == [job.id] and recovery.alone == ()
    failed = await stopped.job(job.id)
    assert failed.status is JobStatus.FAILED and failed.error is not None
    assert failed.error.code == "job_crashed" and "retry" in failed.error.hint
    assert "ended uncleanly 5 times" in failed.error.message and "3 of them while it ran alone" in failed.error.message
    async with started(stopped, monkeypatch) as engine:
        assert (await engine.job(job.id)).status is JobStatus.FAILED, "a start does not run it again"
        await engine.retry(job.id)
        assert unclean_starts(engine) == {job.id: 0}
        assert (await wait_until_done(engine, job)).status is JobStatus.COMPLETED


async def test_a_harmless_job_completes_after_one_crash_less_than_the_limit(
    stopped: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n\n".join(f"Paragraph {number} about rivers." for number in range(400))
    job = await stopped.add(make_file("one.txt", text))
    end_uncleanly(stopped, LIMIT - 1)
    async with started(stopped, monkeypatch) as engine:
        assert (await wait_until_done(engine, job)).chunk_count > 8
        assert await engine.verify() == []


async def test_a_crawl_that_makes_progress_is_never_failed_by_crashes(stopped: LocalEngine) -> None:
    store, crawls = stopped._parts.jobs, stopped._parts.crawls
    stopped._parts.crawler.close()  # this test is the crawler
    job = await stopped.crawl(NewCrawl(url="http://example.com/"))
    for number in range(2 * LIMIT):
        claim = store.claim_crawl() or store.claim_crawl(alone=True)
        assert claim is not None
        crawls.begin_crawl(job.id, NewFrontierEntry(f"page {number}", f"http://example.com/{number}", 0))
        entry = crawls.next_entry(job.id)
        if number % (LIMIT - 1) == 0 and entry is not None:
            crawls.close_entry(entry, CrawledPage(entry.url, PageOutcome.CREATED))
        assert job_recovery.recover_jobs(stopped._parts.database).failed == ()
    assert (await stopped.job(job.id)).status is JobStatus.QUEUED


# -- alone ------------------------------------------------------------------------------------------


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


async def add_quarantined_and_other(engine: LocalEngine) -> tuple[Job, Job]:
    alone = await engine.add(make_file("alone.txt", "it was being done twice"))
    end_uncleanly(engine, MAX_UNCLEAN_STARTS)
    return alone, await engine.add(make_file("other.txt", "it came later"))


async def test_a_quarantined_job_runs_after_the_others_and_without_any_beside_it(
    stopped: LocalEngine,
) -> None:
    alone, other = await add_quarantined_and_other(stopped)
    claims = ClaimScheduler(stopped._parts.jobs)
    claims.expect_alone_job()
    first = claims.claim(most_urgent_only=False)
    assert first is not None and first.id == other.id
    assert claims.claim(most_urgent_only=False) is None, "another job is still being done"
    stopped._parts.jobs.mark_cancelled(first)
    assert claims.end_job(), "idle workers should try to claim again"
    second = claims.claim(most_urgent_only=False)
    assert second is not None and second.id == alone.id
    await stopped.add(NewNote(text="even a note has to wait"))
    assert claims.claim(most_urgent_only=True) is None
    claims.end_job()
    assert claims.claim(most_urgent_only=True) is not None


async def test_a_quarantined_job_is_not_starved_by_new_jobs(stopped: LocalEngine) -> None:
    alone, _ = await add_quarantined_and_other(stopped)
    clock = Clock()
    claims = ClaimScheduler(stopped._parts.jobs, clock)
    claims.expect_alone_job()
    clock.now = MAX_WAIT_SECONDS
    claim = claims.claim(most_urgent_only=False)
    assert claim is not None and claim.id == alone.id


async def test_a_quarantined_job_can_be_cancelled_before_it_starts(settings: Settings, parsers: SharedParsers) -> None:
    engine = make_test_engine(settings, parsers=parsers, model=HostileModel("end", settings.data))
    job = await engine.add(make_file("poison.txt", f"{DEADLY_WORD} in it"))
    end_uncleanly(engine, MAX_UNCLEAN_STARTS)
    engine.start()
    try:
        assert (await engine.cancel(job.id)).status is JobStatus.CANCELLED
        assert unclean_starts(engine) == {job.id: MAX_UNCLEAN_STARTS}, "it was not begun"
    finally:
        await asyncio.to_thread(engine.close)


@pytest.mark.parametrize("kind", ["a new document", "the same under another title"])
async def test_a_quarantined_job_that_crashes_its_child_is_failed_with_that_reason(
    settings: Settings, parsers: SharedParsers, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    engine = make_test_engine(settings, parsers=parsers, model=HostileModel("end", settings.data))
    if kind == "a new document":
        job = await engine.add(NewNote(text=f"{DEADLY_WORD} in a note"))
    else:
        job = await queue_poisoned_title(engine)
    end_uncleanly(engine, MAX_UNCLEAN_STARTS)
    async with started(engine, monkeypatch):
        ended = await engine.wait(job.id, WAIT_SECONDS)
        assert ended.status is JobStatus.FAILED and ended.error is not None
        assert ended.error.code == "job_crashed" and f"knowledge jobs retry {job.id}" in ended.error.hint
        assert "SIGKILL" in ended.error.message and "no other job was running" in ended.error.message
        other = await engine.add(NewNote(text="the server lives on"))
        assert (await wait_until_done(engine, other)).status is JobStatus.COMPLETED


async def queue_poisoned_title(engine: LocalEngine) -> Job:
    """Queue a job that embeds a document again because its new title has the deadly word."""
    engine._parts.models.start()
    await engine.add(make_file("tea.txt", "tea at noon"))
    published = engine._parts.ingest.run(claim_any(engine), lambda *_: None, lambda: False)
    assert published is not None
    edit = DocumentEdit(title=f"{DEADLY_WORD} tea")
    document = engine._parts.documents.edit(published.document_id, edit, Scope(), engine._parts.options.quota)
    return engine._parts.acceptor.queue_embedding(document, Scope())


async def test_a_quarantined_job_that_hangs_can_be_cancelled_within_a_second(
    settings: Settings, parsers: SharedParsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_test_engine(settings, parsers=parsers, model=HostileModel("freeze", settings.data))
    job = await engine.add(make_file("poison.txt", f"{DEADLY_WORD} in it"))
    end_uncleanly(engine, MAX_UNCLEAN_STARTS)
    async with started(engine, monkeypatch):
        async with asyncio.timeout(WAIT_SECONDS):
            while (await engine.job(job.id)).status is not JobStatus.PROCESSING:
                await asyncio.sleep(0.01)
        began = time.monotonic()
        assert (await engine.cancel(job.id)).status is JobStatus.CANCELLED
        assert time.monotonic() - began < 1.0
        assert (
            await wait_until_done(engine, await engine.add(NewNote(text="the next one")))
        ).status is JobStatus.COMPLETED


async def test_a_child_killed_together_with_the_server_fails_no_job(
    settings: Settings, parsers: SharedParsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_test_engine(settings, parsers=parsers, model=HostileModel("end", settings.data))
    job = await engine.add(make_file("one.txt", f"{DEADLY_WORD} simulates a kill from outside"))
    end_uncleanly(engine, MAX_UNCLEAN_STARTS)
    monkeypatch.setattr(runtime, "ALONE_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(workers, "OUTSIDE_KILL_SECONDS", WAIT_SECONDS)
    engine.start()
    async with asyncio.timeout(WAIT_SECONDS):
        while (await engine.job(job.id)).status is not JobStatus.PROCESSING:
            await asyncio.sleep(0.01)
    await asyncio.to_thread(engine.close)
    again = make_test_engine(settings, parsers=parsers)
    assert (await again.job(job.id)).status is JobStatus.QUEUED
    assert unclean_starts(again) == {job.id: MAX_UNCLEAN_STARTS}
    again.close()
