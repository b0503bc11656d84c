"""Crawling again: only what changed is embedded, and what is gone goes, but not at once."""

from __future__ import annotations

import pytest

from knowledge.engine.local import LocalEngine
from knowledge.model import DocumentFilter, JobFilter, JobKind, JobStatus, Query
from knowledge.model.crawls import Crawl
from tests.support.crawls import at, crawled, outcomes, titles
from tests.support.web_site import Asked, Reply, Site, page


async def again(engine: LocalEngine, crawl: Crawl) -> Crawl:
    return await crawled(engine, crawl.url, collection=crawl.collection_uid)


async def adding_jobs(engine: LocalEngine) -> int:
    return (await engine.jobs(JobFilter(kind=JobKind.ADD))).total


@pytest.mark.requirement("002.crawler.unchanged")
async def test_unchanged_pages_are_asked_for_by_their_etag_and_their_links_remembered(
    site: Site, local: LocalEngine
) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.headers.get("if-none-match") == '"one"':
            return Reply("", 304)
        return Reply(page("Start", "/a"), headers={"ETag": '"one"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"})

    site.pages["/"] = answer
    site.put("/a")
    first = await crawled(local, site.url + "/")
    second = await again(local, first)
    assert outcomes(second) == {"/": "unchanged", "/a": "unchanged"}
    assert at(second, "/").http_status == 304
    assert second.job.status is JobStatus.COMPLETED
    assert await adding_jobs(local) == 2, "nothing was read or embedded the second time"


@pytest.mark.requirement("002.crawler.changed")
async def test_a_changed_page_replaces_its_document(site: Site, local: LocalEngine) -> None:
    site.put("/", "/a")
    site.put("/a", title="Before")
    first = await crawled(local, site.url + "/")
    site.put("/a", title="After", text="Now it is about coffee and its grinders.")
    second = await again(local, first)
    assert outcomes(second) == {"/": "unchanged", "/a": "updated"}
    assert at(second, "/a").document_id == at(first, "/a").document_id
    assert await titles(local) == ["After", "Page /"]
    assert "coffee" in (await local.search(Query(text="coffee grinders"))).hits[0].chunk.text


async def test_a_document_that_was_removed_comes_back(site: Site, local: LocalEngine) -> None:
    site.pages["/"] = lambda asked: (
        Reply("", 304) if "if-none-match" in asked.headers else Reply(page("Start"), headers={"ETag": '"one"'})
    )
    first = await crawled(local, site.url + "/")
    await local.remove(at(first, "/").document_id or 0)
    second = await again(local, first)
    assert outcomes(second) == {"/": "created"}


@pytest.mark.requirement("002.crawler.gone")
async def test_a_page_that_is_gone_keeps_its_document_until_it_is_gone_twice(site: Site, local: LocalEngine) -> None:
    site.put("/", "/a", "/b")
    site.put("/a")
    site.put("/b")
    first = await crawled(local, site.url + "/")
    del site.pages["/b"]
    second = await again(local, first)
    assert outcomes(second)["/b"] == "gone"
    assert "Page /b" in await titles(local)
    third = await again(local, first)
    assert (at(third, "/b").outcome, third.counts.removed) == ("removed", 1)
    assert await titles(local) == ["Page /", "Page /a"]
    assert outcomes(await again(local, first))["/b"] == "HTTP status"


async def test_a_page_that_nothing_links_to_any_more_is_looked_for(site: Site, local: LocalEngine) -> None:
    site.put("/", "/a", "/b")
    site.put("/a")
    site.put("/b")
    first = await crawled(local, site.url + "/")
    site.put("/", "/a")
    del site.pages["/b"]
    await again(local, first)
    await again(local, first)
    assert await titles(local) == ["Page /", "Page /a"]


async def test_beyond_max_pages_pages_are_only_asked_after(site: Site, local: LocalEngine) -> None:
    site.put("/", "/a", "/b")
    site.put("/a")
    site.put("/b")
    first = await crawled(local, site.url + "/")
    del site.pages["/b"]
    for _ in range(2):
        await crawled(local, first.url, collection=first.collection_uid, max_pages=1)
    assert [asked.method for asked in site.asked if asked.path == "/b"] == ["GET", "HEAD", "HEAD"]
    assert await titles(local) == ["Page /", "Page /a"]


async def test_a_page_that_came_back_is_not_counted_as_gone(site: Site, local: LocalEngine) -> None:
    site.put("/", "/a")
    site.put("/a")
    first = await crawled(local, site.url + "/")
    kept = site.pages.pop("/a")
    await again(local, first)
    site.pages["/a"] = kept
    await again(local, first)
    del site.pages["/a"]
    last = await again(local, first)
    assert outcomes(last)["/a"] == "gone", "the count began anew"
    assert (await local.documents(DocumentFilter())).total == 2


async def test_a_busy_site_does_not_make_pages_gone(site: Site, local: LocalEngine) -> None:
    site.put("/", "/a")
    site.put("/a")
    first = await crawled(local, site.url + "/")
    site.pages["/a"] = Reply("", 503)
    await again(local, first)
    await again(local, first)
    assert "Page /a" in await titles(local)


async def test_removing_the_source_removes_what_was_crawled_and_remembered(site: Site, local: LocalEngine) -> None:
    site.put("/", "/a")
    site.put("/a")
    crawl = await crawled(local, site.url + "/")
    removed = await local.remove_collection(crawl.collection_uid)
    assert removed.documents == 2
    assert (await local.crawl_report(crawl.job.id)).collection is None
    assert (await local.search(Query(text="kettle"))).hits == ()
    assert await local.verify() == []
