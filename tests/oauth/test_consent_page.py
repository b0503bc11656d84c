"""The login and consent pages in Chromium, without JavaScript: each kind of redirect reaches the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from tests.oauth.test_python_sdk import serve_with_oauth
from tests.support.accounts import PASSWORD
from tests.support.browser import list_flags, require_browser
from tests.support.oauth import OAuthTestClient
from tests.support.server_process import TIMEOUT_SECONDS
from tests.support.tls import serve_tls_site
from tests.support.web_site import SiteReply, serve_site

PRIVATE_URI = "cursor://anysphere.cursor-mcp/oauth/callback"


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    path = require_browser()
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=list_flags())
        yield opened
        await opened.close()


async def open_consent(page: Page, url: str, redirect_uri: str) -> OAuthTestClient:
    """Open the authorization request of a new client and log in."""
    async with httpx.AsyncClient(base_url=url) as http:
        client = OAuthTestClient(http, url, redirect_uri)
        await client.register()
    await page.goto(f"{url}/authorize?{client.query()}")
    if await page.get_by_label("Username").count():
        await page.get_by_label("Username").fill("ada")
        await page.get_by_label("Password or API key").fill(PASSWORD)
        await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", name="Allow Test Agent?")).to_be_visible()
    return client


async def test_every_kind_of_redirect_reaches_the_client(
    local: LocalEngine, guarded: Settings, browser: Browser, tmp_path: Path
) -> None:
    expect.set_options(timeout=TIMEOUT_SECONDS * 1000)
    context = await browser.new_context(java_script_enabled=False, ignore_https_errors=True)
    page = await context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    async with serve_with_oauth(local, guarded) as url:
        with serve_site() as loopback, serve_tls_site(tmp_path) as remote:
            loopback.default_reply = SiteReply("<h1>Connected</h1>")
            remote.put("/callback", b"<h1>Connected</h1>", Content_Type="text/html")
            loopback_uri = f"{loopback.url}/callback"
            await open_consent(page, url, loopback_uri)
            await expect(page.get_by_text("just started the connection yourself")).to_be_visible()
            await expect(page.get_by_text(urlsplit(loopback_uri).netloc, exact=True)).to_be_visible()
            await page.get_by_role("button", name="Allow").click()
            await page.wait_for_url(f"{loopback_uri}?**")
            answer = parse_qs(urlsplit(page.url).query)
            assert set(answer) == {"code", "state", "iss"} and answer["iss"] == [url]

            await open_consent(page, url, f"{remote.url}/callback")
            assert await page.get_by_text("just started").count() == 0
            await page.get_by_role("button", name="Deny").click()
            await page.wait_for_url(f"{remote.url}/callback?**")
            assert parse_qs(urlsplit(page.url).query)["error"] == ["access_denied"]

            client = await open_consent(page, url, PRIVATE_URI)
            await expect(page.get_by_text("cursor:", exact=True)).to_be_visible()
            await page.get_by_label("Add, change and remove documents").uncheck()
            await page.get_by_role("button", name="Allow").click()
            link = page.get_by_role("link", name="Go on to Test Agent")
            await expect(link).to_be_visible()
            answer_url = await link.get_attribute("href") or ""
            assert answer_url.startswith(f"{PRIVATE_URI}?code=")
            async with httpx.AsyncClient(base_url=url) as http:
                client.http = http
                issued = await client.exchange(parse_qs(urlsplit(answer_url).query)["code"][0])
            assert issued.json()["scope"] == "read"
    await context.close()
    assert [text for text in problems if "Content Security Policy" in text or "form-action" in text] == []


async def test_no_other_page_can_frame_the_consent_page(
    local: LocalEngine, guarded: Settings, browser: Browser
) -> None:
    page = await browser.new_page()
    async with serve_with_oauth(local, guarded) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            client = OAuthTestClient(http, url)
            await client.register()
        with serve_site() as evil:
            framed = f"{url}/authorize?{client.query()}".replace("&", "&amp;")
            evil.pages["/"] = SiteReply(f'<iframe src="{framed}"></iframe>')
            async with page.expect_response(lambda answer: "/authorize" in answer.url):
                await page.goto(f"{evil.url}/")
            assert "Log in" not in (await page.frames[-1].content())
    await page.close()


async def test_the_page_lists_connected_apps_and_revokes_them(
    local: LocalEngine, guarded: Settings, browser: Browser
) -> None:
    expect.set_options(timeout=TIMEOUT_SECONDS * 1000)
    page = await browser.new_page()
    async with serve_with_oauth(local, guarded) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            tokens = await OAuthTestClient(http, url).get_tokens()
        await page.goto(f"{url}/settings")
        await page.get_by_label("User name").fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in", exact=True).click()
        await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
        await expect(page.get_by_role("heading", name="Connected apps")).to_be_visible()
        await page.locator(".row", has_text="Test Agent").get_by_role("button").click()
        await expect(page.get_by_text("Test Agent")).to_have_count(0)
        assert await local.oauth.find_token(tokens["access_token"]) is None
    await page.close()
