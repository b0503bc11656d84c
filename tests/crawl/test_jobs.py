"""A crawl is a job: it reports progress, can be cancelled, and resumes after a kill."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.local import LocalEngine
from knowledge.model import DocumentFilter, JobFilter, JobKind, JobStatus, NewNote, new_uid
from knowledge.model.crawls import NewCrawl
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.accounts import register
from tests.support.crawls import list_outcomes, list_titles, run_crawl
from tests.support.web_site import ReceivedRequest, SiteReply, WebSite, make_page

LIMIT = 30.0


class Gate:
    """A page that answers when the test opens the gate."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, asked: ReceivedRequest) -> SiteReply:
        self.reached.set()
        self.open.wait(LIMIT)
        return SiteReply(make_page(f"Page {asked.path}"))

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, LIMIT)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def until_created(engine: LocalEngine, job_id: int, pages: int) -> None:
    async with asyncio.timeout(LIMIT):
        while (await engine.crawl_report(job_id)).counts.created < pages:
            await asyncio.sleep(0.01)


@pytest.mark.requirement("002.crawler.progress")
async def test_a_crawl_reports_its_progress(site: WebSite, local: LocalEngine, gate: Gate) -> None:
    site.put_page("/", "/a", "/slow")
    site.put_page("/a")
    site.pages["/slow"] = gate
    job = await local.crawl(NewCrawl(url=site.url + "/", recursive=True))
    await gate.wait()
    now = await local.job(job.id)
    assert (now.kind, now.status, now.total) == (JobKind.CRAWL, JobStatus.PROCESSING, 10)
    assert now.step == f"Crawling {site.url}/slow"
    report = await local.crawl_report(job.id)
    assert report.counts.pending >= 1
    gate.open.set()
    assert (await local.wait(job.id, LIMIT)).status is JobStatus.COMPLETED


@pytest.mark.requirement("002.crawler.cancel")
async def test_a_crawl_is_cancelled_within_a_second_while_it_waits_for_a_page(
    site: WebSite, local: LocalEngine, gate: Gate
) -> None:
    site.put_page("/", "/slow")
    site.pages["/slow"] = gate
    job = await local.crawl(NewCrawl(url=site.url + "/", recursive=True))
    await gate.wait()
    await local.documents(DocumentFilter())
    async with asyncio.timeout(5):
        cancelled = await local.cancel(job.id)
    assert cancelled.status is JobStatus.CANCELLED
    assert cancelled.completed_at is not None
    assert not gate.open.is_set(), "the page had not answered"


class TestWithALongDelay:
    @pytest.fixture
    def crawl(self) -> CrawlOptions:
        from knowledge.engine.fetch.ssrf import AllowedHosts

        return CrawlOptions(delay=60.0, allowed=AllowedHosts.parse("127.0.0.1"))

    async def test_a_crawl_is_cancelled_while_it_waits_its_turn(self, site: WebSite, local: LocalEngine) -> None:
        site.put_page("/", "/a")
        job = await local.crawl(NewCrawl(url=site.url + "/", recursive=True))
        await until(lambda: any(asked.path == "/robots.txt" for asked in site.requests))
        async with asyncio.timeout(5):
            assert (await local.cancel(job.id)).status is JobStatus.CANCELLED

    @pytest.mark.requirement("002.crawler.workers")
    async def test_waiting_crawls_do_not_block_the_ingest_workers(self, site: WebSite, local: LocalEngine) -> None:
        for number in range(4):
            await local.crawl(NewCrawl(url=f"{site.url}/{number}"))
        job = await local.wait((await local.add(NewNote(text="tea in the kitchen"))).id, LIMIT)
        assert job.status is JobStatus.COMPLETED


async def test_pages_ingested_before_a_cancel_stay(site: WebSite, local: LocalEngine, gate: Gate) -> None:
    site.put_page("/", "/a", "/slow")
    site.put_page("/a")
    site.pages["/slow"] = gate
    job = await local.crawl(NewCrawl(url=site.url + "/", recursive=True))
    await gate.wait()
    await until_created(local, job.id, 2)
    await local.cancel(job.id)
    assert await list_titles(local) == ["Page /", "Page /a"]
    assert await local.verify() == []


async def test_a_retried_crawl_resumes_where_it_was_cancelled(site: WebSite, local: LocalEngine, gate: Gate) -> None:
    site.put_page("/", "/a", "/slow")
    site.put_page("/a")
    site.pages["/slow"] = gate
    job = await local.crawl(NewCrawl(url=site.url + "/", recursive=True))
    await gate.wait()
    await until_created(local, job.id, 2)
    await local.cancel(job.id)
    gate.open.set()
    await local.retry(job.id)
    assert (await local.wait(job.id, LIMIT)).status is JobStatus.COMPLETED
    assert site.list_requested_paths() == ["/", "/a", "/slow", "/slow"]


async def test_a_retried_crawl_starts_again_when_it_had_failed(site: WebSite, local: LocalEngine) -> None:
    first = await run_crawl(local, site.url + "/")
    assert first.job.status is JobStatus.FAILED
    site.put_page("/")
    await local.retry(first.job.id)
    assert (await local.wait(first.job.id, LIMIT)).status is JobStatus.COMPLETED
    assert list_outcomes(await local.crawl_report(first.job.id)) == {"/": "created"}


async def test_removing_the_collection_stops_its_crawl(site: WebSite, local: LocalEngine, gate: Gate) -> None:
    site.put_page("/", "/slow")
    site.pages["/slow"] = gate
    job = await local.crawl(NewCrawl(url=site.url + "/", recursive=True))
    await gate.wait()
    report = await local.crawl_report(job.id)
    await local.remove_collection(report.collection_uid)
    assert (await local.job(job.id)).status is JobStatus.CANCELLED
    assert (await local.documents(DocumentFilter())).total == 0


async def test_a_crawl_resumes_in_the_next_process(
    site: WebSite, settings: Settings, parsers: SharedParsers, gate: Gate, crawl: CrawlOptions
) -> None:
    site.put_page("/", "/a", "/slow", "/b")
    site.put_page("/a")
    site.put_page("/b")
    site.pages["/slow"] = gate
    engine = make_test_engine(settings, parsers=parsers, crawl=crawl)
    engine.start()
    job = await engine.crawl(NewCrawl(url=site.url + "/", recursive=True))
    await gate.wait()
    await asyncio.to_thread(engine.close)
    gate.open.set()
    await check_resumed_crawl(site, settings, parsers, crawl, job.id)


@pytest.mark.requirement("002.crawler.resume")
async def test_a_crawl_resumes_after_a_kill(
    site: WebSite, settings: Settings, parsers: SharedParsers, gate: Gate, crawl: CrawlOptions
) -> None:
    site.put_page("/", "/a", "/slow", "/b")
    site.put_page("/a")
    site.put_page("/b")
    site.pages["/slow"] = gate
    program = Path(__file__).with_name("killed_crawl.py")
    process = await asyncio.create_subprocess_exec(sys.executable, program, settings.data, site.url + "/")
    try:
        await gate.wait()
    finally:
        process.kill()
        await process.wait()
    gate.open.set()
    await check_resumed_crawl(site, settings, parsers, crawl, 1)


async def check_resumed_crawl(
    site: WebSite, settings: Settings, parsers: SharedParsers, crawl: CrawlOptions, job_id: int
) -> None:
    """Check that every page is ingested once and no finished page is fetched again."""
    engine = make_test_engine(settings, parsers=parsers, crawl=crawl)
    engine.start()
    try:
        job = await engine.wait(job_id, LIMIT)
        assert job.status is JobStatus.COMPLETED
        assert await list_titles(engine) == ["Page /", "Page /a", "Page /b", "Page /slow"]
        assert (await engine.jobs(JobFilter(kind=JobKind.ADD))).total == 4
        assert await engine.verify() == []
    finally:
        await asyncio.to_thread(engine.close)
    assert sorted(site.list_requested_paths()) == ["/", "/a", "/b", "/slow", "/slow"]


async def test_a_job_uid_of_another_account_starts_a_new_crawl(local: LocalEngine, site: WebSite) -> None:
    site.put_page("/")
    ada, bob = await register(local, "ada"), await register(local, "bob")
    new = NewCrawl(url=site.url + "/", recursive=False, job_uid=new_uid())
    jobs = [await person.crawl(new) for person in (ada, bob, bob)]
    assert jobs[1].id == jobs[2].id != jobs[0].id
    for person, job in ((ada, jobs[0]), (bob, jobs[1])):
        assert (await person.wait(new.job_uid, LIMIT)).id == job.id
        assert (await person.crawl_report(new.job_uid)).job.id == job.id
        assert await list_titles(person) == ["Page /"]
