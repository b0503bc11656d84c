"""Crawls over plain REST requests, without RemoteEngine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import make_rest_app
from tests.support.web_site import ReceivedRequest, SiteReply, WebSite, make_page


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000/api/v1") as client:
        yield client


async def test_a_crawl_is_started_watched_and_reported(
    http: httpx.AsyncClient, local: LocalEngine, site: WebSite
) -> None:
    site.put_page("/", "/missing")
    started = await http.post("/crawls", json={"url": site.url + "/", "recursive": True})
    assert started.status_code == 202
    crawl = started.json()
    assert (crawl["url"], crawl["max_pages"], crawl["recursive"]) == (site.url + "/", 10, True)
    await local.wait(crawl["id"], 30)
    report = (await http.get(f"/crawls/{crawl['uid']}")).json()
    assert (report["status"], report["pages_crawled"], report["pages_failed"]) == ("completed", 1, 1)
    assert [(page["outcome"], page["reason"]) for page in report["pages"]] == [
        ("created", None),
        ("failed", "HTTP status"),
    ]
    listed = (await http.get("/crawls")).json()
    assert (listed["total"], listed["crawls"][0]["id"], listed["crawls"][0]["pages"]) == (1, crawl["id"], [])


async def test_a_crawl_is_cancelled_once(http: httpx.AsyncClient, site: WebSite) -> None:
    reached, leave = threading.Event(), threading.Event()

    def slow(asked: ReceivedRequest) -> SiteReply:
        reached.set()
        leave.wait(30)
        return SiteReply(make_page("Late"))

    site.pages["/"] = slow
    crawl = (await http.post("/crawls", json={"url": site.url + "/"})).json()
    assert await asyncio.to_thread(reached.wait, 30)
    stopped = await http.post(f"/crawls/{crawl['id']}/cancel")
    leave.set()
    assert stopped.json()["status"] == "cancelled"
    assert (await http.post(f"/crawls/{crawl['id']}/cancel")).status_code == 409


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "missing_parameter"),
        ({"url": "ftp://example.com/"}, 422, "invalid_parameter"),
        ({"url": "http://10.0.0.1/"}, 403, "address_forbidden"),
        ({"url": "https://example.com/", "max_pages": 101}, 422, "invalid_parameter"),
        ({"url": "https://example.com/", "source_id": "nowhere"}, 404, "collection_not_found"),
        ({"url": "https://example.com/", "depth": 3}, 422, "unknown_parameter"),
    ],
)
async def test_an_invalid_crawl_is_refused_with_its_error_code(
    http: httpx.AsyncClient, body: dict[str, object], status: int, code: str
) -> None:
    answer = await http.post("/crawls", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_job_that_is_no_crawl_has_no_report(http: httpx.AsyncClient) -> None:
    job = (await http.post("/jobs", json={"note": "tea"})).json()["job_id"]
    answer = await http.get(f"/crawls/{job}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "job_not_found")
