"""Sites as they are: moved, busy, broken, slow, walled, and out to lead a crawler where it must not go."""

from __future__ import annotations

import asyncio
import gzip
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.fetch.client import Patience
from knowledge.engine.local import LocalEngine
from knowledge.model import JobStatus
from tests.support.crawls import at, crawled, outcomes
from tests.support.web_site import Asked, Reply, Site, page, serving


def to(location: str, status: int = 302) -> Reply:
    return Reply("", status, {"Location": location})


# -- redirects ----------------------------------------------------------------------------------


@pytest.mark.requirement("002.crawler.redirects")
async def test_a_moved_page_is_taken_from_where_it_is_now(site: Site, local: LocalEngine) -> None:
    site.put("/", "/old", "/new")
    site.pages["/old"] = to("/new", 301)
    site.put("/new")
    crawl = await crawled(local, site.url + "/")
    assert outcomes(crawl) == {"/": "created", "/old": "duplicate", "/new": "created"}


async def test_the_first_page_may_lead_to_the_real_one(site: Site, local: LocalEngine) -> None:
    site.pages["/"] = to("/en/latest/")
    site.put("/en/latest/", "/en/latest/more")
    site.put("/en/latest/more")
    crawl = await crawled(local, site.url + "/")
    assert outcomes(crawl) == {"/": "redirected", "/en/latest/": "created", "/en/latest/more": "created"}


async def test_the_first_page_may_lead_to_another_host_and_that_is_the_site(site: Site, local: LocalEngine) -> None:
    with serving() as other:
        site.pages["/"] = to(other.url + "/home")
        other.put("/home", "/more", site.url + "/back")
        other.put("/more")
        crawl = await crawled(local, site.url + "/")
        assert outcomes(crawl)["/more"] == "created"
        assert outcomes(crawl)["/back"] == "off-site"


async def test_other_pages_may_not_lead_off_the_site(site: Site, local: LocalEngine) -> None:
    with serving() as other:
        site.put("/", "/out")
        site.pages["/out"] = to(other.url + "/")
        crawl = await crawled(local, site.url + "/")
        assert [page.reason for page in crawl.pages] == [None, "off-site"]
        assert other.asked == []


@pytest.mark.requirement("002.crawler.circles")
async def test_redirects_in_a_circle_are_a_failure_with_that_reason(site: Site, local: LocalEngine) -> None:
    site.pages["/"] = to("/b")
    site.pages["/b"] = to("/")
    crawl = await crawled(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert crawl.job.error is not None
    assert "circle" in crawl.job.error.message


async def test_redirects_without_end_are_given_up(site: Site, local: LocalEngine) -> None:
    site.otherwise = lambda asked: to(asked.path + "x") if "robots" not in asked.path else Reply("", 404)
    crawl = await crawled(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert len(site.asked) < 20


INSIDE = [
    "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://[::1]/", "http://2852039166/",
    "http://0251.0376.0251.0376/", "http://[::ffff:169.254.169.254]/", "http://metadata.localtest.invalid/",
]  # fmt: skip


@pytest.mark.requirement("002.crawler.redirect_inside")
@pytest.mark.parametrize("inside", INSIDE)
async def test_a_redirect_to_an_address_inside_is_not_followed(site: Site, local: LocalEngine, inside: str) -> None:
    site.pages["/"] = to(inside)
    crawl = await crawled(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert {page.reason for page in crawl.pages} <= {"forbidden address", "unreachable"}


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://example.com/", "http://a:b@example.com/", "gopher://x"]
)
async def test_a_redirect_to_what_is_no_web_page_is_not_followed(site: Site, local: LocalEngine, target: str) -> None:
    site.pages["/"] = to(target)
    crawl = await crawled(local, site.url + "/")
    assert outcomes(crawl) == {"/": "unreachable"}


async def test_a_name_that_leads_inside_is_refused_when_it_is_resolved(site: Site, local: LocalEngine) -> None:
    """`localhost` is allowed here and this name is not, though both lead to the same machine."""
    report = await crawled(local, f"http://localhost.localdomain:{site.port}/")
    assert report.job.status is JobStatus.FAILED
    assert site.asked == []


# -- robots -------------------------------------------------------------------------------------


@pytest.mark.requirement("002.crawler.robots")
async def test_robots_are_obeyed_by_our_own_name_first(site: Site, local: LocalEngine) -> None:
    rules = "User-agent: *\nDisallow:\n\nUser-agent: KnowledgeServer\nDisallow: /b\nAllow: /b/open"
    site.pages["/robots.txt"] = Reply(rules, content_type="text/plain")
    site.put("/", "/a", "/b/x", "/b/open")
    for path in ("/a", "/b/x", "/b/open"):
        site.put(path)
    crawl = await crawled(local, site.url + "/")
    assert outcomes(crawl) == {"/": "created", "/a": "created", "/b/x": "robots", "/b/open": "created"}


async def test_a_forbidden_first_page_fails_the_crawl_with_that_reason(site: Site, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = Reply("User-agent: *\nDisallow: /", content_type="text/plain")
    site.put("/")
    crawl = await crawled(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert crawl.job.error is not None
    assert "robots" in crawl.job.error.message
    assert site.paths() == []


async def test_robots_that_cannot_be_read_forbid_everything(site: Site, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = Reply("", 503)
    site.put("/")
    crawl = await crawled(local, site.url + "/")
    assert outcomes(crawl) == {"/": "robots"}
    assert "503" in at(crawl, "/").detail


async def test_a_redirect_does_not_lead_around_robots(site: Site, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = Reply("User-agent: *\nDisallow: /secret", content_type="text/plain")
    site.put("/", "/door")
    site.pages["/door"] = to("/secret")
    site.put("/secret")
    crawl = await crawled(local, site.url + "/")
    assert "/secret" not in site.paths()
    assert "robots" in outcomes(crawl).values()


@pytest.mark.requirement("002.crawler.delay")
async def test_the_delay_of_robots_is_kept_between_two_pages(site: Site, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = Reply("User-agent: *\nCrawl-delay: 0.4", content_type="text/plain")
    moments: list[float] = []

    def note(asked: Asked) -> Reply:
        moments.append(time.monotonic())
        return Reply(page(asked.path, "/a", "/b"))

    site.pages |= {"/": note, "/a": note, "/b": note}
    await crawled(local, site.url + "/")
    assert len(moments) == 3
    assert all(later - sooner >= 0.39 for sooner, later in pairwise(moments[1:]))


# -- busy and broken ----------------------------------------------------------------------------


@pytest.mark.requirement("002.crawler.busy")
@pytest.mark.parametrize("status", [429, 503, 500])
async def test_a_busy_site_is_asked_again_when_it_says(site: Site, local: LocalEngine, status: int) -> None:
    answers = [Reply("", status, {"Retry-After": "0"}), Reply("", status), Reply(page("Here at last"))]
    site.pages["/"] = lambda _: answers.pop(0)
    crawl = await crawled(local, site.url + "/", recursive=False)
    assert outcomes(crawl) == {"/": "created"}
    assert site.paths() == ["/", "/", "/"]


async def test_a_site_that_stays_busy_is_a_failure_with_its_status(site: Site, local: LocalEngine) -> None:
    site.put("/", "/busy")
    site.pages["/busy"] = Reply("", 503)
    crawl = await crawled(local, site.url + "/")
    assert at(crawl, "/busy").http_status == 503
    assert crawl.job.status is JobStatus.PARTIAL
    assert any("503" in warning for warning in crawl.job.warnings)


async def test_a_site_that_wants_an_hour_is_not_waited_for(site: Site, local: LocalEngine) -> None:
    site.pages["/"] = Reply("", 429, {"Retry-After": "3600"})
    crawl = await crawled(local, site.url + "/", recursive=False)
    assert at(crawl, "/").http_status == 429
    assert site.paths() == ["/"]


@pytest.mark.requirement("002.crawler.empty")
async def test_an_empty_page_is_a_failure_with_that_reason(site: Site, local: LocalEngine) -> None:
    site.put("/", "/empty", "/blank")
    site.pages["/empty"] = Reply("")
    site.pages["/blank"] = Reply("<html><body><main></main></body></html>")
    crawl = await crawled(local, site.url + "/")
    assert {outcomes(crawl)["/empty"], outcomes(crawl)["/blank"]} <= {"empty after extraction", "duplicate"}


@pytest.mark.requirement("002.crawler.nothing")
async def test_a_crawl_without_a_document_has_failed_and_says_why(site: Site, local: LocalEngine) -> None:
    site.pages["/"] = Reply("<html><body></body></html>")
    crawl = await crawled(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert crawl.job.error is not None
    assert crawl.job.error.code == "nothing_crawled"
    assert "empty after extraction" in crawl.job.error.message


@pytest.mark.requirement("002.crawler.needs_a_browser")
async def test_a_page_written_by_a_script_needs_a_browser(site: Site, local: LocalEngine) -> None:
    site.pages["/"] = Reply('<html><title>App</title><body><div id="root"></div><script src="/a.js"></script></body>')
    crawl = await crawled(local, site.url + "/")
    assert outcomes(crawl) == {"/": "needs a browser"}
    assert "KNOWLEDGE_CRAWL_BROWSER" in at(crawl, "/").detail


async def test_a_host_that_is_not_there_fails_with_its_name(local: LocalEngine) -> None:
    crawl = await crawled(local, "http://nowhere.invalid/")
    assert outcomes(crawl) == {"/": "unreachable"}
    assert crawl.job.error is not None
    assert "nowhere.invalid" in crawl.job.error.message


class TestLimits:
    @pytest.fixture
    def crawl(self, crawl: CrawlOptions) -> CrawlOptions:
        return replace(crawl, max_page_bytes=20_000, max_bytes=30_000, patience=Patience(2, 0.5, 1))

    @pytest.mark.requirement("002.crawler.too_large")
    async def test_pages_that_are_too_large_are_left_out(self, site: Site, local: LocalEngine) -> None:
        site.put("/", "/large", "/bomb")
        site.pages["/large"] = Reply(page("Large", text="tea " * 10_000))
        bomb = gzip.compress(b"<p>" + b"tea " * 1_000_000)
        site.pages["/bomb"] = Reply(bomb, headers={"Content-Encoding": "gzip"})
        crawl = await crawled(local, site.url + "/")
        assert outcomes(crawl) == {"/": "created", "/large": "too large", "/bomb": "too large"}

    @pytest.mark.requirement("002.crawler.enough")
    async def test_a_crawl_ends_when_it_has_brought_enough(self, site: Site, local: LocalEngine) -> None:
        site.put("/", *(f"/{number}" for number in range(9)))
        for number in range(9):
            site.put(f"/{number}", text=f"cup {number} " * 1000)
        crawl = await crawled(local, site.url + "/")
        assert 0 < crawl.counts.crawled < 9
        assert crawl.counts.pending
        assert any("KNOWLEDGE_CRAWL_MAX_MB" in warning for warning in crawl.job.warnings)

    async def test_a_page_that_takes_too_long_costs_only_itself(self, site: Site, local: LocalEngine) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            crawl = await crawled(local, f"http://127.0.0.1:{port}/")
        assert crawl.job.status is JobStatus.FAILED
        assert crawl.job.error is not None
        assert "too slow" in crawl.job.error.message
