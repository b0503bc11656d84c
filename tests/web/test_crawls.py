"""A crawl on the page: a row for every address, live, with the reason of what was left out, and another try."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from tests.support.browser import require_browser
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.support.web_site import SiteReply, WebSite, serve_site
from tests.web.conftest import WITH_MODEL
from tests.web.steps import hold_answers

pytestmark = pytest.mark.long


@pytest.fixture
def site() -> Iterator[WebSite]:
    with serve_site() as opened:
        yield opened


@pytest.fixture
def crawl_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that may crawl sites on this machine."""
    require_browser()
    settings = {**WITH_MODEL, "KNOWLEDGE_CRAWL_ALLOW": "127.0.0.1", "KNOWLEDGE_CRAWL_DELAY": "0"}
    with run_server_process_on_port(0, tmp_path_factory.mktemp("crawls"), settings) as running:
        yield running


async def test_a_crawl_has_a_row_for_every_page_with_its_outcome(
    page: Page, crawl_server: ServerProcess, site: WebSite
) -> None:
    site.put_page("/", "/kettles", "/missing", "/private/plans", title="Tea house")
    site.put_page("/kettles", title="Kettles of copper")
    site.put_page("/private/plans", title="Plans")
    site.pages["/robots.txt"] = SiteReply("User-agent: *\nDisallow: /private/\n", content_type="text/plain")
    await page.goto(f"{crawl_server.url}/activity")
    await expect(page.get_by_text("Nothing has been added yet.")).to_be_visible()
    started = crawl_server.http.post("/crawls", json={"url": f"{site.url}/", "recursive": True, "max_pages": 10})
    assert started.status_code == 202, started.text
    row = page.locator(f".row[data-job='{started.json()['uid']}']")
    await expect(row).to_be_visible()
    crawl_server.wait_for_job(started.json()["uid"])
    await expect(row).to_have_class(re.compile("good|part"))
    await row.get_by_role("link", name="Pages").click()
    rows = {path: page.locator(".row").filter(has=page.locator(f".name[title='{site.url}{path}']"))
            for path in ("/", "/kettles", "/missing", "/private/plans")}  # fmt: skip
    await expect(rows["/kettles"].locator(".text")).to_contain_text("Added")
    await expect(rows["/missing"].locator(".text")).to_contain_text("HTTP 404")
    await expect(rows["/missing"]).to_have_class(re.compile("bad|off"))
    await expect(rows["/private/plans"].locator(".text")).to_contain_text("robots")
    await expect(rows["/private/plans"]).to_have_class(re.compile("off"))
    await expect(page.get_by_role("status").filter(has_text="pages read")).to_be_visible()
    assert "/private/plans" not in site.list_requested_paths()
    await expect(page.get_by_text("robots.txt forbids 1 page, which was not read.")).to_be_visible()
    await page.get_by_role("link", name="Added", exact=True).click()
    await expect(page.locator(".row")).to_have_count(2)
    gate = await hold_answers(page, "**/pages?outcome=skipped*")
    await page.get_by_role("link", name="Left out", exact=True).click()
    await expect(page.locator("ul.rows")).to_have_attribute("aria-busy", "true")
    gate.set()
    await expect(page.locator("ul.rows")).to_have_attribute("aria-busy", "false")
    await expect(page.locator(".row")).to_have_count(1)
    await expect(page.locator(".row .name")).to_have_attribute("title", f"{site.url}/private/plans")
    before = page.url.partition("?")[0]
    site.put_page("/kettles", title="Kettles of iron")
    await page.get_by_role("button", name="Read it again").click()
    await expect(page).not_to_have_url(re.compile(re.escape(before)))
    await expect(rows["/kettles"].locator(".text")).to_contain_text("Updated")
    await expect(rows["/"].locator(".text")).to_contain_text("Unchanged")
    await expect(page.get_by_role("button", name="Read it again")).to_be_visible()
    await rows["/kettles"].get_by_role("link", name="Open").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Kettles of iron")


async def test_a_crawl_is_started_on_the_page_and_a_failed_one_is_tried_again(
    page: Page, crawl_server: ServerProcess, site: WebSite
) -> None:
    site.default_reply = SiteReply("<h1>Down</h1>", 500)
    await page.goto(f"{crawl_server.url}/add?what=site")
    await page.get_by_label("Address").fill(f"{site.url}/kettles")
    await page.get_by_role("button", name="Read it").click()
    await expect(page).to_have_url(re.compile(r"/activity/crawls/[0-9a-f-]{36}$"))
    job = crawl_server.wait_for_job(page.url.rpartition("/")[2])
    assert (job["status"], job["retryable"]) == ("failed", True)
    await expect(page.get_by_role("button", name="Read it again")).to_be_visible()
    await page.get_by_role("link", name="Activity", exact=True).click()
    await page.locator(".chip", has_text="Failed").click()
    row = page.locator(".row.bad")
    await expect(row.locator(".text").first).not_to_be_empty()
    site.default_reply = SiteReply("<h1>Not found</h1>", 404)
    site.put_page("/kettles", title="Kettles of copper")
    await page.get_by_role("button", name="Try all again").click()
    await expect(page.locator(".note")).to_contain_text("1 job is tried again.")
    await page.locator(".chip", has_text="All").click()
    assert crawl_server.wait_for_job(job["uid"])["status"] == "completed"
    await expect(page.locator(f".row.good[data-job='{job['uid']}'] .text")).to_have_text("All pages read")
