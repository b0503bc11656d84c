"""Crawling a site again: only changed pages are embedded, and missing pages are removed after two crawls."""

from __future__ import annotations

import pytest

from knowledge.engine.local import LocalEngine
from knowledge.model import DocumentFilter, JobFilter, JobKind, JobStatus, Query
from knowledge.model.crawls import Crawl
from tests.support.crawls import find_page, list_outcomes, list_titles, run_crawl
from tests.support.web_site import ReceivedRequest, SiteReply, WebSite, make_page


async def crawl_again(engine: LocalEngine, crawl: Crawl) -> Crawl:
    return await run_crawl(engine, crawl.url, collection=crawl.collection_uid)


async def count_add_jobs(engine: LocalEngine) -> int:
    return (await engine.jobs(JobFilter(kind=JobKind.ADD))).total


@pytest.mark.requirement("002.crawler.unchanged")
async def test_unchanged_pages_are_requested_with_their_etag_and_their_links_are_followed(
    site: WebSite, local: LocalEngine
) -> None:
    def answer(asked: ReceivedRequest) -> SiteReply:
        if asked.headers.get("if-none-match") == '"one"':
            return SiteReply("", 304)
        return SiteReply(
            make_page("Start", "/a"), headers={"ETag": '"one"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
        )

    site.pages["/"] = answer
    site.put_page("/a")
    first = await run_crawl(local, site.url + "/")
    second = await crawl_again(local, first)
    assert list_outcomes(second) == {"/": "unchanged", "/a": "unchanged"}
    assert find_page(second, "/").http_status == 304
    assert second.job.status is JobStatus.COMPLETED
    assert await count_add_jobs(local) == 2, "nothing was read or embedded the second time"


@pytest.mark.requirement("002.crawler.changed")
async def test_a_changed_page_replaces_its_document(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a")
    site.put_page("/a", title="Before")
    first = await run_crawl(local, site.url + "/")
    site.put_page("/a", title="After", text="Now it is about coffee and its grinders.")
    second = await crawl_again(local, first)
    assert list_outcomes(second) == {"/": "unchanged", "/a": "updated"}
    assert find_page(second, "/a").document_id == find_page(first, "/a").document_id
    assert await list_titles(local) == ["After", "Page /"]
    assert "coffee" in (await local.search(Query(text="coffee grinders"))).hits[0].chunk.text


async def test_a_removed_document_is_created_again(site: WebSite, local: LocalEngine) -> None:
    site.pages["/"] = lambda asked: (
        SiteReply("", 304)
        if "if-none-match" in asked.headers
        else SiteReply(make_page("Start"), headers={"ETag": '"one"'})
    )
    first = await run_crawl(local, site.url + "/")
    await local.remove(find_page(first, "/").document_id or 0)
    second = await crawl_again(local, first)
    assert list_outcomes(second) == {"/": "created"}


@pytest.mark.requirement("002.crawler.deleted")
async def test_a_missing_page_keeps_its_document_until_the_second_crawl(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a", "/b")
    site.put_page("/a")
    site.put_page("/b")
    first = await run_crawl(local, site.url + "/")
    del site.pages["/b"]
    second = await crawl_again(local, first)
    assert list_outcomes(second)["/b"] == "gone"
    assert "Page /b" in await list_titles(local)
    third = await crawl_again(local, first)
    assert (find_page(third, "/b").outcome, third.counts.removed) == ("removed", 1)
    assert await list_titles(local) == ["Page /", "Page /a"]
    assert list_outcomes(await crawl_again(local, first))["/b"] == "HTTP status"


async def test_a_page_that_is_no_longer_linked_is_checked(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a", "/b")
    site.put_page("/a")
    site.put_page("/b")
    first = await run_crawl(local, site.url + "/")
    site.put_page("/", "/a")
    del site.pages["/b"]
    await crawl_again(local, first)
    await crawl_again(local, first)
    assert await list_titles(local) == ["Page /", "Page /a"]


async def test_beyond_max_pages_known_pages_get_only_a_head_request(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a", "/b")
    site.put_page("/a")
    site.put_page("/b")
    first = await run_crawl(local, site.url + "/")
    del site.pages["/b"]
    for _ in range(2):
        await run_crawl(local, first.url, collection=first.collection_uid, max_pages=1)
    assert [asked.method for asked in site.requests if asked.path == "/b"] == ["GET", "HEAD", "HEAD"]
    assert await list_titles(local) == ["Page /", "Page /a"]


async def test_the_count_of_missing_crawls_starts_again_when_a_page_is_back(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a")
    site.put_page("/a")
    first = await run_crawl(local, site.url + "/")
    kept = site.pages.pop("/a")
    await crawl_again(local, first)
    site.pages["/a"] = kept
    await crawl_again(local, first)
    del site.pages["/a"]
    last = await crawl_again(local, first)
    assert list_outcomes(last)["/a"] == "gone"
    assert (await local.documents(DocumentFilter())).total == 2


async def test_pages_of_a_busy_site_do_not_count_as_missing(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a")
    site.put_page("/a")
    first = await run_crawl(local, site.url + "/")
    site.pages["/a"] = SiteReply("", 503)
    await crawl_again(local, first)
    await crawl_again(local, first)
    assert "Page /a" in await list_titles(local)


async def test_removing_the_collection_removes_the_crawled_documents(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a")
    site.put_page("/a")
    crawl = await run_crawl(local, site.url + "/")
    removed = await local.remove_collection(crawl.collection_uid)
    assert removed.documents == 2
    assert (await local.crawl_report(crawl.job.id)).collection is None
    assert (await local.search(Query(text="kettle"))).hits == ()
    assert await local.verify() == []
