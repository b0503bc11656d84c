"""crawl_website and manage_crawl_job."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.contracts.transports import PlainTransport, Transport
from tests.support.web_site import ReceivedRequest, SiteReply, WebSite, make_page

LIMIT = 30.0


async def ended(client: Transport, job_id: str) -> dict[str, Any]:
    """Wait until a crawl has ended and return its report."""
    async with asyncio.timeout(LIMIT):
        while True:
            answer: dict[str, Any] = await client.call("manage_crawl_job", action="get", job_id=job_id, per_page=20)
            if answer["crawl_job"]["status"] not in ("running", "queued"):
                return answer
            await asyncio.sleep(0.05)


@pytest.mark.requirement("002.crawl.started")
async def test_a_crawl_returns_its_job_immediately(client: Transport, site: WebSite) -> None:
    site.put_page("/docs/")
    answer = await client.call(
        "crawl_website", url=site.url + "/docs/", recursive=True, max_pages=50, title="Example Docs"
    )
    job = answer["crawl_job"]
    assert set(job) == {
        "id", "source_id", "url", "status", "pages_crawled", "pages_pending", "max_pages", "recursive", "created_at",
    }  # fmt: skip
    assert (job["status"], job["max_pages"], job["recursive"]) == ("running", 50, True)
    assert f"manage_crawl_job(action='get', job_id='{job['id']}')" in answer["message"]
    source = (await client.call("manage_source", action="get", source_id=job["source_id"]))["source"]
    assert (source["title"], source["source_type"], source["url"]) == ("Example Docs", "crawl", site.url + "/docs/")
    await ended(client, job["id"])


@pytest.mark.requirement("002.crawl.completed")
async def test_a_completed_crawl_reports_pages_and_documents(client: Transport, site: WebSite) -> None:
    site.put_page("/", "/a", "/gone", "/tag/x")
    site.put_page("/a", text="Async context managers close their doors behind them.")
    answer = await client.call("crawl_website", url=site.url + "/", recursive=True, exclude_patterns=["/tag/"])
    done = await ended(client, answer["crawl_job"]["id"])
    job = done["crawl_job"]
    assert (job["status"], job["pages_crawled"], job["pages_failed"], job["pages_skipped"]) == ("completed", 2, 1, 1)
    assert (job["documents_created"], job["total_chunks"]) == (2, 2)
    assert job["started_at"] <= job["completed_at"]
    assert done["message"] == "Crawl completed: 2 pages crawled, 2 documents created"
    assert job["reasons"] == {"HTTP status": 1, "excluded": 1}
    assert [page["reason"] for page in job["pages"]] == ["HTTP status", "excluded", None, None]
    found = await client.call("search_knowledge_base", query="context managers", source_id=job["source_id"])
    assert found["results"][0]["metadata"]["url"] == site.url + "/a"


@pytest.mark.requirement("002.crawl.max_pages")
@pytest.mark.parametrize(("given", "used"), [(500, 100), (0, 1)])
async def test_max_pages_is_clamped_and_shown(tools: PlainTransport, site: WebSite, given: int, used: int) -> None:
    site.put_page("/")
    answer = await tools.call("crawl_website", url=site.url + "/", max_pages=given)
    assert answer["crawl_job"]["max_pages"] == used
    await ended(tools, answer["crawl_job"]["id"])


@pytest.mark.requirement("002.crawl.existing_source")
async def test_pages_can_be_added_to_an_existing_source(tools: PlainTransport, site: WebSite) -> None:
    site.put_page("/new-section/")
    source = (await tools.call("manage_source", action="create", title="Docs", source_type="crawl"))["source"]["id"]
    answer = await tools.call("crawl_website", url=site.url + "/new-section/", source_id=source)
    assert answer["crawl_job"]["source_id"] == source
    await ended(tools, answer["crawl_job"]["id"])
    assert (await tools.call("manage_source", action="get", source_id=source))["source"]["documents_count"] == 1


@pytest.mark.requirement("002.crawl.domain_title")
async def test_a_new_source_is_named_after_the_site(tools: PlainTransport, site: WebSite) -> None:
    site.put_page("/")
    job = (await tools.call("crawl_website", url=site.url + "/"))["crawl_job"]
    source = (await tools.call("manage_source", action="get", source_id=job["source_id"]))["source"]
    assert source["title"] == "127.0.0.1"
    await ended(tools, job["id"])


@pytest.mark.requirement("002.crawl.nothing")
async def test_a_crawl_without_documents_fails_with_the_reason(tools: PlainTransport, site: WebSite) -> None:
    job = (await tools.call("crawl_website", url=site.url + "/missing"))["crawl_job"]
    done = await ended(tools, job["id"])
    assert done["crawl_job"]["status"] == "failed"
    assert "HTTP 404" in done["crawl_job"]["error_message"]
    assert done["message"].startswith("Crawl failed: No page of")


@pytest.mark.requirement("002.crawl.url")
@pytest.mark.parametrize("url", ["ftp://example.com", "example.com", "file:///etc/passwd", "javascript:alert(1)"])
async def test_other_url_schemes_are_refused_with_the_contracts_message(tools: PlainTransport, url: str) -> None:
    answer = await tools.call("crawl_website", url=url)
    assert answer["error"] == "Invalid URL: must start with http:// or https://"
    assert answer["suggestion"].startswith("Provide fully qualified URL")


@pytest.mark.requirement("002.crawl.forbidden")
@pytest.mark.parametrize("host", ["169.254.169.254", "10.1.2.3", "[::1]", "2852039166", "0x7f000002"])
async def test_private_addresses_are_refused_immediately(tools: PlainTransport, host: str) -> None:
    answer = await tools.call("crawl_website", url=f"http://{host}/")
    assert "not a public address" in answer["error"]


@pytest.mark.requirement("002.crawl_job.cancel")
async def test_a_crawl_can_be_cancelled_once(client: Transport, site: WebSite) -> None:
    reached, leave = threading.Event(), threading.Event()

    def slow(asked: ReceivedRequest) -> SiteReply:
        reached.set()
        leave.wait(LIMIT)
        return SiteReply(make_page("Late"))

    site.pages["/"] = slow
    job = (await client.call("crawl_website", url=site.url + "/"))["crawl_job"]["id"]
    assert await asyncio.to_thread(reached.wait, LIMIT)
    stopped = await client.call("manage_crawl_job", action="cancel", job_id=job)
    leave.set()
    assert stopped["crawl_job"]["status"] == "cancelled"
    again = await client.call("manage_crawl_job", action="cancel", job_id=job)
    assert "already ended with status cancelled" in again["error"]
    assert f"job_id='{job}'" in again["suggestion"]


@pytest.mark.requirement("002.crawl_job.list")
async def test_crawl_jobs_are_listed_newest_first(tools: PlainTransport, site: WebSite) -> None:
    site.put_page("/")
    jobs = [(await tools.call("crawl_website", url=site.url + "/"))["crawl_job"]["id"] for _ in range(2)]
    listed = await tools.call("manage_crawl_job", action="list", per_page=50)
    assert [job["id"] for job in listed["crawl_jobs"]][:2] == jobs[::-1]
    assert listed["per_page"] == 20
    assert listed["total_count"] >= 2
    for job in jobs:
        await ended(tools, job)
