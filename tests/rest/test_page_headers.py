"""HTML pages have a strict Content-Security-Policy, and /docs works under it in a real browser."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.async_api import async_playwright

from knowledge.config import Settings
from knowledge.engine.crawl.browser import find_browser
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.page_headers import CONTENT_SECURITY_POLICY
from tests.contracts.app_server import serve_app

BROWSER = find_browser("auto")


async def test_the_docs_page_and_its_files_have_the_security_headers(local: LocalEngine, settings: Settings) -> None:
    transport = httpx.ASGITransport(app=make_http_app(local, settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        page = await http.get("/docs")
        files = [await http.get(f"/docs/{name}") for name in ("docs.js", "docs.css")]
    assert page.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    assert page.headers["permissions-policy"] == "camera=(), microphone=(), geolocation=()"
    assert "<style" not in page.text and "<script>" not in page.text and " style=" not in page.text
    assert [reply.headers["content-type"] for reply in files] == [
        "text/javascript; charset=utf-8",
        "text/css; charset=utf-8",
    ]
    for reply in (page, *files):
        assert reply.status_code == 200
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert reply.headers["referrer-policy"] == "no-referrer"


def test_the_policy_allows_nothing_inline_and_no_other_host() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY and "*" not in CONTENT_SECURITY_POLICY
    assert "://" not in CONTENT_SECURITY_POLICY and "data:" not in CONTENT_SECURITY_POLICY
    directives = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))
    assert directives["default-src"] == "'none'" and directives["frame-ancestors"] == "'none'"
    assert directives["require-trusted-types-for"] == "'script'" and directives["trusted-types"] == "'none'"


@pytest.mark.skipif(BROWSER is None, reason="No Chromium is installed on this machine.")
async def test_the_docs_page_lists_the_calls_in_a_browser_under_its_policy(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    problems: list[str] = []
    async with serve_app(make_http_app(local, settings)) as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox"], downloads_path=tmp_path
        )
        page = await browser.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(f"{url}/docs")
        search = page.locator("details", has_text="/api/v1/search").first
        await search.locator("summary").click()
        await search.get_by_text("The search query.").wait_for()
        assert await page.locator("details").count() > 40
        assert await page.evaluate("getComputedStyle(document.querySelector('details')).borderRadius") == "6px"
        assert problems == [], "under the policy nothing was blocked"
        blocked = await page.evaluate("""() => new Promise(resolve => {
            document.addEventListener("securitypolicyviolation", event => resolve(event.effectiveDirective));
            try { document.body.innerHTML = "<b>x</b>"; } catch (error) { resolve(error.name); }
        })""")
        assert blocked in ("TypeError", "require-trusted-types-for"), "a string never becomes HTML"
        await browser.close()
