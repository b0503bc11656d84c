"""Difficult and hostile sites: redirects, SSRF, robots.txt, retries, broken and slow pages, size limits."""

from __future__ import annotations

import asyncio
import gzip
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.fetch.client import FetchTimeouts
from knowledge.engine.local import LocalEngine
from knowledge.model import JobStatus
from tests.support.crawls import find_page, list_outcomes, run_crawl
from tests.support.web_site import ReceivedRequest, SiteReply, WebSite, make_page, serve_site


def redirect_to(location: str, status: int = 302) -> SiteReply:
    return SiteReply("", status, {"Location": location})


# -- redirects ----------------------------------------------------------------------------------


@pytest.mark.requirement("002.crawler.redirects")
async def test_a_redirected_page_is_ingested_once(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/old", "/new")
    site.pages["/old"] = redirect_to("/new", 301)
    site.put_page("/new")
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "created", "/old": "duplicate", "/new": "created"}


async def test_the_start_page_may_redirect(site: WebSite, local: LocalEngine) -> None:
    site.pages["/"] = redirect_to("/en/latest/")
    site.put_page("/en/latest/", "/en/latest/more")
    site.put_page("/en/latest/more")
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "redirected", "/en/latest/": "created", "/en/latest/more": "created"}


async def test_a_start_page_that_redirects_to_another_host_makes_it_the_site(site: WebSite, local: LocalEngine) -> None:
    with serve_site() as other:
        site.pages["/"] = redirect_to(other.url + "/home")
        other.put_page("/home", "/more", site.url + "/back")
        other.put_page("/more")
        crawl = await run_crawl(local, site.url + "/")
        assert list_outcomes(crawl)["/more"] == "created"
        assert list_outcomes(crawl)["/back"] == "off-site"


async def test_other_pages_may_not_redirect_off_the_site(site: WebSite, local: LocalEngine) -> None:
    with serve_site() as other:
        site.put_page("/", "/out")
        site.pages["/out"] = redirect_to(other.url + "/")
        crawl = await run_crawl(local, site.url + "/")
        assert [page.reason for page in crawl.pages] == [None, "off-site"]
        assert other.requests == []


@pytest.mark.requirement("002.crawler.redirect_loop")
async def test_a_redirect_loop_fails_with_that_reason(site: WebSite, local: LocalEngine) -> None:
    site.pages["/"] = redirect_to("/b")
    site.pages["/b"] = redirect_to("/")
    crawl = await run_crawl(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert crawl.job.error is not None
    assert "Redirect loop" in crawl.job.error.message


async def test_endless_redirects_are_stopped(site: WebSite, local: LocalEngine) -> None:
    site.default_reply = lambda asked: (
        redirect_to(asked.path + "x") if "robots" not in asked.path else SiteReply("", 404)
    )
    crawl = await run_crawl(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert len(site.requests) < 20


INSIDE = [
    "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://[::1]/", "http://2852039166/",
    "http://0251.0376.0251.0376/", "http://[::ffff:169.254.169.254]/", "http://metadata.localtest.invalid/",
]  # fmt: skip


@pytest.mark.requirement("002.crawler.redirect_inside")
@pytest.mark.parametrize("inside", INSIDE)
async def test_a_redirect_to_a_private_address_is_not_followed(site: WebSite, local: LocalEngine, inside: str) -> None:
    site.pages["/"] = redirect_to(inside)
    crawl = await run_crawl(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert {page.reason for page in crawl.pages} <= {"forbidden address", "unreachable"}


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://example.com/", "http://a:b@example.com/", "gopher://x"]
)
async def test_a_redirect_to_an_unsupported_url_is_not_followed(site: WebSite, local: LocalEngine, target: str) -> None:
    site.pages["/"] = redirect_to(target)
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "unreachable"}


async def test_a_host_name_that_resolves_to_a_private_address_is_refused(site: WebSite, local: LocalEngine) -> None:
    """`localhost` is allowed and this host name is not, though both resolve to loopback."""
    report = await run_crawl(local, f"http://localhost.localdomain:{site.port}/")
    assert report.job.status is JobStatus.FAILED
    assert site.requests == []


# -- robots -------------------------------------------------------------------------------------


@pytest.mark.requirement("002.crawler.robots")
async def test_robots_rules_for_our_user_agent_come_first(site: WebSite, local: LocalEngine) -> None:
    rules = "User-agent: *\nDisallow:\n\nUser-agent: KnowledgeServer\nDisallow: /b\nAllow: /b/open"
    site.pages["/robots.txt"] = SiteReply(rules, content_type="text/plain")
    site.put_page("/", "/a", "/b/x", "/b/open")
    for path in ("/a", "/b/x", "/b/open"):
        site.put_page(path)
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "created", "/a": "created", "/b/x": "robots", "/b/open": "created"}


async def test_a_start_page_forbidden_by_robots_txt_fails_the_crawl(site: WebSite, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = SiteReply("User-agent: *\nDisallow: /", content_type="text/plain")
    site.put_page("/")
    crawl = await run_crawl(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert crawl.job.error is not None
    assert "robots" in crawl.job.error.message
    assert site.list_requested_paths() == []


async def test_an_unreadable_robots_txt_forbids_everything(site: WebSite, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = SiteReply("", 503)
    site.put_page("/")
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "robots"}
    assert "503" in find_page(crawl, "/").detail


async def test_an_invalid_sitemap_url_in_robots_txt_is_ignored(site: WebSite, local: LocalEngine) -> None:
    rules = f"User-agent: *\nDisallow: /b\nSitemap: http://[bad\nSitemap: {site.url}/pages.txt"
    site.pages["/robots.txt"] = SiteReply(rules, content_type="text/plain")
    site.pages["/pages.txt"] = SiteReply(f"{site.url}/a\n", content_type="text/plain")
    site.put_page("/")
    site.put_page("/a")
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "created", "/a": "created"}


async def test_a_redirect_does_not_bypass_robots_txt(site: WebSite, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = SiteReply("User-agent: *\nDisallow: /secret", content_type="text/plain")
    site.put_page("/", "/moved")
    site.pages["/moved"] = redirect_to("/secret")
    site.put_page("/secret")
    crawl = await run_crawl(local, site.url + "/")
    assert "/secret" not in site.list_requested_paths()
    assert "robots" in list_outcomes(crawl).values()


@pytest.mark.requirement("002.crawler.delay")
async def test_the_crawl_delay_of_robots_txt_is_kept(site: WebSite, local: LocalEngine) -> None:
    site.pages["/robots.txt"] = SiteReply("User-agent: *\nCrawl-delay: 0.4", content_type="text/plain")
    moments: list[float] = []

    def note(asked: ReceivedRequest) -> SiteReply:
        moments.append(time.monotonic())
        return SiteReply(make_page(asked.path, "/a", "/b"))

    site.pages |= {"/": note, "/a": note, "/b": note}
    await run_crawl(local, site.url + "/")
    assert len(moments) == 3
    assert all(later - sooner >= 0.39 for sooner, later in pairwise(moments[1:]))


# -- busy and broken ----------------------------------------------------------------------------


@pytest.mark.requirement("002.crawler.retry")
@pytest.mark.parametrize("status", [429, 503, 500])
async def test_a_busy_site_is_retried_as_its_retry_after_says(site: WebSite, local: LocalEngine, status: int) -> None:
    answers = [SiteReply("", status, {"Retry-After": "0"}), SiteReply("", status), SiteReply(make_page("Here at last"))]
    site.pages["/"] = lambda _: answers.pop(0)
    crawl = await run_crawl(local, site.url + "/", recursive=False)
    assert list_outcomes(crawl) == {"/": "created"}
    assert site.list_requested_paths() == ["/", "/", "/"]


async def test_a_page_that_stays_busy_fails_with_its_status(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/busy")
    site.pages["/busy"] = SiteReply("", 503)
    crawl = await run_crawl(local, site.url + "/")
    assert find_page(crawl, "/busy").http_status == 503
    assert crawl.job.status is JobStatus.PARTIAL
    assert any("503" in warning for warning in crawl.job.warnings)


async def test_a_retry_after_of_an_hour_is_not_waited_for(site: WebSite, local: LocalEngine) -> None:
    site.pages["/"] = SiteReply("", 429, {"Retry-After": "3600"})
    crawl = await run_crawl(local, site.url + "/", recursive=False)
    assert find_page(crawl, "/").http_status == 429
    assert site.list_requested_paths() == ["/"]


@pytest.mark.requirement("002.crawler.empty")
async def test_an_empty_page_fails_with_that_reason(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/empty", "/blank")
    site.pages["/empty"] = SiteReply("")
    site.pages["/blank"] = SiteReply("<html><body><main></main></body></html>")
    crawl = await run_crawl(local, site.url + "/")
    assert {list_outcomes(crawl)["/empty"], list_outcomes(crawl)["/blank"]} <= {
        "empty after extraction",
        "duplicate",
    }


@pytest.mark.requirement("002.crawler.nothing")
async def test_a_crawl_without_a_document_fails_with_the_reason(site: WebSite, local: LocalEngine) -> None:
    site.pages["/"] = SiteReply("<html><body></body></html>")
    crawl = await run_crawl(local, site.url + "/")
    assert crawl.job.status is JobStatus.FAILED
    assert crawl.job.error is not None
    assert crawl.job.error.code == "nothing_crawled"
    assert "empty after extraction" in crawl.job.error.message


@pytest.mark.requirement("002.crawler.needs_a_browser")
async def test_a_javascript_page_needs_a_browser(site: WebSite, local: LocalEngine) -> None:
    site.pages["/"] = SiteReply(
        '<html><title>App</title><body><div id="root"></div><script src="/a.js"></script></body>'
    )
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "needs a browser"}
    assert "KNOWLEDGE_CRAWL_BROWSER" in find_page(crawl, "/").detail


async def test_an_unknown_host_fails_with_its_name(local: LocalEngine) -> None:
    crawl = await run_crawl(local, "http://nowhere.invalid/")
    assert list_outcomes(crawl) == {"/": "unreachable"}
    assert crawl.job.error is not None
    assert "nowhere.invalid" in crawl.job.error.message


class TestLimits:
    @pytest.fixture
    def crawl(self, crawl: CrawlOptions) -> CrawlOptions:
        return replace(crawl, max_page_bytes=20_000, max_bytes=30_000, timeouts=FetchTimeouts(2, 0.5, 1))

    @pytest.mark.requirement("002.crawler.too_large")
    async def test_pages_over_the_size_limit_are_skipped(self, site: WebSite, local: LocalEngine) -> None:
        site.put_page("/", "/large", "/bomb")
        site.pages["/large"] = SiteReply(make_page("Large", text="tea " * 10_000))
        bomb = gzip.compress(b"<p>" + b"tea " * 1_000_000)
        site.pages["/bomb"] = SiteReply(bomb, headers={"Content-Encoding": "gzip"})
        crawl = await run_crawl(local, site.url + "/")
        assert list_outcomes(crawl) == {"/": "created", "/large": "too large", "/bomb": "too large"}

    @pytest.mark.requirement("002.crawler.total_size")
    async def test_a_crawl_ends_at_its_total_size_limit(self, site: WebSite, local: LocalEngine) -> None:
        site.put_page("/", *(f"/{number}" for number in range(9)))
        for number in range(9):
            site.put_page(f"/{number}", text=f"cup {number} " * 1000)
        crawl = await run_crawl(local, site.url + "/")
        assert 0 < crawl.counts.crawled < 9
        assert crawl.counts.pending
        assert any("KNOWLEDGE_CRAWL_MAX_MB" in warning for warning in crawl.job.warnings)

    async def test_a_page_that_never_answers_fails_as_too_slow(self, site: WebSite, local: LocalEngine) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            crawl = await run_crawl(local, f"http://127.0.0.1:{port}/")
        assert crawl.job.status is JobStatus.FAILED
        assert crawl.job.error is not None
        assert "too slow" in crawl.job.error.message
