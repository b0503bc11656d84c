"""A crawl runs on one server at a time, and another one resumes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from knowledge.model import JobStatus
from knowledge.model.crawls import NewCrawl
from tests.cluster.conftest import OpenMember
from tests.support.crawls import CRAWL_SECONDS, list_outcomes, list_titles, run_crawl
from tests.support.web_site import ReceivedRequest, SiteReply, WebSite, make_page, serve_site

CRAWLING: dict[str, object] = {"crawl_delay": 0, "crawl_allow": "127.0.0.1, localhost"}


@pytest.fixture
def site() -> Iterator[WebSite]:
    with serve_site() as made:
        made.pages = {
            "/": SiteReply(make_page("Home", "/one", "/two")),
            "/one": SiteReply(make_page("One", text="The walrus waits at the harbour for the morning tide.")),
            "/two": SiteReply(make_page("Two", text="The otter sleeps on the pier until the ferry comes.")),
        }
        yield made


async def test_a_crawl_runs_on_another_server_and_its_report_is_read_here(
    open_member: OpenMember, site: WebSite
) -> None:
    here = open_member("here", server_role="no-workers", **CRAWLING)
    open_member("there", server_role="workers-only", **CRAWLING)
    crawl = await run_crawl(here, site.url + "/")
    assert list_outcomes(crawl) == {"/": "created", "/one": "created", "/two": "created"}
    assert await list_titles(here) == ["Home", "One", "Two"]


async def test_a_crawl_is_cancelled_whichever_server_is_asked(open_member: OpenMember, site: WebSite) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def wait(_: ReceivedRequest) -> SiteReply:
        reached.set()
        go_on.wait(CRAWL_SECONDS)
        return SiteReply(make_page("Two"))

    site.pages["/two"] = wait
    here = open_member("here", server_role="no-workers", **CRAWLING)
    open_member("there", server_role="workers-only", **CRAWLING)
    try:
        job = await here.crawl(NewCrawl(url=site.url + "/", recursive=True, max_pages=20))
        assert await asyncio.to_thread(reached.wait, CRAWL_SECONDS)
        assert (await here.cancel(job.id)).status is JobStatus.CANCELLED
    finally:
        go_on.set()


async def test_a_crawl_whose_server_lost_its_lease_is_resumed_by_another_and_adds_every_page_once(
    open_member: OpenMember, site: WebSite
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def wait_once(_: ReceivedRequest) -> SiteReply:
        if not reached.is_set():
            reached.set()
            go_on.wait(CRAWL_SECONDS)
        return SiteReply(make_page("Two", text="The otter sleeps on the pier until the ferry comes."))

    site.pages["/two"] = wait_once
    first = open_member("first", **CRAWLING)
    try:
        job = await first.crawl(NewCrawl(url=site.url + "/", recursive=True, max_pages=20))
        assert await asyncio.to_thread(reached.wait, CRAWL_SECONDS)
        member = first._parts.member
        assert member is not None
        await asyncio.to_thread(member.close)  # its leases are not renewed, as if it were cut off from the database
        second = open_member("second", **CRAWLING)
        ended = await second.wait(job.id, CRAWL_SECONDS)
        assert ended.status is JobStatus.COMPLETED
        assert await list_titles(second) == ["Home", "One", "Two"]
    finally:
        go_on.set()
