"""Accounts and corpora on the page: nobody sees another's data, sharing is seen live, and the settings of a server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Error, Page, Response, expect

from tests.support.browser import PageReports, require_browser
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.web.conftest import WAIT_MS
from tests.web.library import OPERATOR_KEY
from tests.web.steps import PASSWORD, fill_login

ADMIN = "root"
SECRET = "marzipan"
"""A word that stands in the documents, names and keys of one account only."""


@pytest.fixture(autouse=True)
def refused_calls_are_expected(reports: PageReports) -> None:
    """A browser reports every 401 on the console."""
    reports.expected.append("401")


@pytest.fixture(scope="module")
def people_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the accounts of an admin and of two others, and without a model."""
    require_browser()
    settings = {
        "KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_RERANKER": "none", "KNOWLEDGE_API_KEY": OPERATOR_KEY,
        "KNOWLEDGE_AUTH_RATE_LIMIT": "off", "ADMIN_USERS": ADMIN, "KNOWLEDGE_ACCOUNT_MAX_DOCUMENTS": "40",
    }  # fmt: skip
    with run_server_process_on_port(0, tmp_path_factory.mktemp("people"), settings) as running:
        with connect(running, OPERATOR_KEY) as operator:
            for name in (ADMIN, "ada", "bob"):
                assert operator.post("/admin/users", json={"username": name, "password": PASSWORD}).is_success
        yield running


def connect(server: ServerProcess, key: str) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}/api/v1", headers={"authorization": f"Bearer {key}"})


def who_is(server: ServerProcess, key: str) -> httpx.Response:
    """Return the account of a key, or the refusal."""
    with connect(server, key) as http:
        return http.get("/user")


def log_in_program(server: ServerProcess, username: str) -> httpx.Client:
    answer = httpx.post(f"{server.url}/api/v1/user/login", json={"username": username, "password": PASSWORD})
    return connect(server, answer.json()["api_key"])


@asynccontextmanager
async def open_as(
    browser: Browser, reports: PageReports, server: ServerProcess, username: str | None
) -> AsyncIterator[Page]:
    """Open a browser of its own, logged in as an account or as the operator."""
    context = await browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    reports.watch(page)
    await page.goto(f"{server.url}/")
    if username is None:
        await page.get_by_role("button", name="Use the operator’s key").click()
        await page.get_by_label("Operator’s key").fill(OPERATOR_KEY)
    else:
        await fill_login(page, username, PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("searchbox")).to_be_visible()
    yield page
    await context.close()


async def read_text(answer: Response) -> str:
    """Return the body; the browser forgets those of a page that was left before they were read."""
    try:
        return await answer.text()
    except Error:
        return ""


async def test_nothing_of_an_account_is_in_the_page_the_network_or_the_cache_of_another(
    browser: Browser, reports: PageReports, people_server: ServerProcess
) -> None:
    with log_in_program(people_server, "ada") as ada:
        for title, public in ((f"The {SECRET} corpus", False), (f"{SECRET} waits", True)):
            corpus = ada.post("/corpuses", json={"display_name": title, "is_public": public}).json()
            note = {"note": f"The safe opens with {SECRET}.", "title": f"{SECRET} note", "collection": corpus["name"]}
            job = ada.post("/jobs", json=note).json()
            assert ada.get(f"/jobs/{job['job_id']}").is_success
        ada.post("/user/api-keys", json={"name": f"{SECRET} key"})
    answers: list[Response] = []
    reading: list[asyncio.Task[str]] = []

    def note_answer(answer: Response) -> None:
        if "/api/" in answer.url:
            answers.append(answer)
            if not answer.url.endswith("/events"):
                reading.append(asyncio.ensure_future(read_text(answer)))

    async with open_as(browser, reports, people_server, "bob") as page:
        page.on("response", note_answer)
        for path, sign in (
            ("/", "#q"), ("/library", "h1"), ("/activity", ".none"), ("/settings", ".meter"),
            ("/settings?show=corpora", ".inline"), ("/settings?show=server", ".sentences"), ("/people", ".none"),
        ):  # fmt: skip
            await page.goto(f"{people_server.url}{path}")
            await expect(page.locator(sign).first).to_be_visible()
            await page.wait_for_load_state("networkidle")
            assert SECRET not in await page.content()
            assert [text for text in await asyncio.gather(*reading) if SECRET in text] == []
        await expect(page.get_by_role("link", name="People")).to_have_count(0)
        await page.goto(f"{people_server.url}/?q=safe+opens")
        await expect(page.locator("#found")).to_have_text("Nothing found")
        kept: list[Any] = await page.evaluate(
            """async () => [{ ...localStorage }, { ...sessionStorage }, document.cookie,
              await indexedDB.databases(), await caches.keys().catch(() => [])]"""
        )
        assert SECRET not in json.dumps(kept)
        read = await asyncio.gather(*reading)
        assert len(read) > 8 and [text for text in read if SECRET in text] == []
        stored = [answer.url for answer in answers if "no-store" not in answer.headers.get("cache-control", "")]
        assert [url for url in stored if not url.endswith("/events")] == []


async def test_a_corpus_is_shared_approved_and_revoked_and_everybody_sees_it_live(
    browser: Browser, reports: PageReports, people_server: ServerProcess
) -> None:
    async with (
        open_as(browser, reports, people_server, "ada") as ada,
        open_as(browser, reports, people_server, "bob") as bob,
        open_as(browser, reports, people_server, ADMIN) as root,
    ):
        for page in (ada, bob):
            await page.goto(f"{people_server.url}/settings?show=corpora")
        await root.goto(f"{people_server.url}/people")
        await expect(root.get_by_role("heading", name="Waiting for approval")).to_be_visible()
        await ada.get_by_label("Name", exact=True).fill("Lighthouses")
        await ada.get_by_role("button", name="Make a corpus").click()
        hers = ada.locator("[data-corpus=lighthouses]")
        await expect(hers).to_contain_text("Private")
        with log_in_program(people_server, "ada") as program:
            program.post(
                "/jobs", json={"note": "The keeper trims the wick.", "title": "Wick", "collection": "lighthouses"}
            )

        await ada.get_by_role("button", name="Sharing: Lighthouses").click()
        await ada.get_by_label("User name").fill("bob")
        await ada.get_by_role("button", name="Share", exact=True).click()
        await expect(hers.locator(".grants")).to_contain_text("bob")
        await expect(bob.locator(".row", has_text="Lighthouses")).to_be_visible()  # without a reload
        await ada.get_by_role("button", name="Revoke: bob").click()
        await expect(bob.locator(".row", has_text="Lighthouses")).to_have_count(0)

        await ada.get_by_role("button", name="Make public: Lighthouses").click()
        await expect(hers).to_contain_text("Waiting for the approval of an admin")
        waits = root.locator("[data-corpus=lighthouses]")
        await expect(waits).to_be_visible()
        await root.get_by_role("button", name="Look: Lighthouses").click()
        await waits.get_by_role("button", name="Wick").click()
        await expect(waits.locator(".passage")).to_contain_text("The keeper trims the wick.")
        await expect(bob.locator(".row", has_text="Lighthouses")).to_have_count(0)

        await root.get_by_role("button", name="Decline: Lighthouses").click()
        await root.get_by_label("Why it is declined").fill("Please name the sources.")
        await waits.locator("form").get_by_role("button", name="Decline").click()
        await expect(hers).to_contain_text("Please name the sources.")
        await ada.get_by_role("button", name="Make public: Lighthouses").click()
        await root.get_by_role("button", name="Approve: Lighthouses").click()
        await expect(hers).to_contain_text("Public and approved")
        await expect(bob.locator(".row", has_text="Lighthouses")).to_be_visible()
        await waits.get_by_role("button", name="Revoke").click()
        await waits.get_by_role("group").get_by_role("button", name="Revoke").click()
        await expect(hers).to_contain_text("Waiting for the approval of an admin")
        await expect(bob.locator(".row", has_text="Lighthouses")).to_have_count(0)


async def test_an_account_makes_rotates_and_revokes_a_key_and_changes_its_password(
    browser: Browser, reports: PageReports, people_server: ServerProcess
) -> None:
    with connect(people_server, OPERATOR_KEY) as operator:
        operator.post("/admin/users", json={"username": "cyd", "password": PASSWORD})
    async with open_as(browser, reports, people_server, "cyd") as page:
        await page.goto(f"{people_server.url}/settings")
        await expect(page.locator(".meter", has_text="Documents")).to_contain_text("0 of 40")
        await page.get_by_label("Name", exact=True).fill("laptop")
        await page.get_by_role("button", name="Make a key").click()
        shown = page.locator(".secret code")
        first = str(await shown.text_content())
        assert who_is(people_server, first).json()["username"] == "cyd"
        key = page.locator(".row", has_text="laptop")
        await expect(key).to_contain_text(first[:15])
        await key.get_by_role("button", name="Rotate").click()
        await key.get_by_role("group").get_by_role("button", name="Rotate").click()
        await expect(shown).not_to_have_text(first)
        second = str(await shown.text_content())
        assert who_is(people_server, first).status_code == 401
        await page.get_by_role("button", name="Done").click()
        assert second not in await page.content()
        await page.get_by_label("Old password").fill(PASSWORD)
        await page.get_by_label("New password").fill("another long password")
        await page.get_by_role("button", name="Change").click()
        await expect(page.locator("p.hidden[role=status]")).to_have_text("The password was changed.")
        assert who_is(people_server, second).is_success
        await key.get_by_role("button", name="Revoke").click()
        await key.get_by_role("group").get_by_role("button", name="Revoke").click()
        await expect(key).to_have_count(0)
        assert who_is(people_server, second).status_code == 401
        await page.get_by_role("button", name="Delete the account").click()
        await (
            page.locator("form")
            .filter(has_text="Delete everything")
            .get_by_label("Password")
            .fill("another long password")
        )
        await page.get_by_role("button", name="Delete everything").click()
        await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def test_the_operator_checks_rebuilds_and_backs_up_and_looks_after_accounts(
    browser: Browser, reports: PageReports, people_server: ServerProcess, tmp_path: Path
) -> None:
    async with open_as(browser, reports, people_server, None) as page:
        await page.goto(f"{people_server.url}/settings?show=server")
        await expect(page.locator(".sentences")).to_contain_text("Everything works.")
        await expect(page.locator(".storage")).to_contain_text("Free on the disk")
        for button, care, outcome in (
            ("Check everything", "verify", "All was well"),
            ("Rebuild the index", "reindex", "The index was rebuilt"),
            ("Make a backup", "backup", "The newest backup was made"),
        ):
            await page.get_by_role("button", name=button).click()
            await expect(page.locator(f"[data-care={care}] .outcome")).to_contain_text(outcome)
        async with page.expect_download() as waiting:
            await page.locator(".archives a").first.click()
        archive = tmp_path / "archive.tar"
        await (await waiting.value).save_as(archive)
        assert b"manifest.json" in archive.read_bytes()[:512]
        await page.goto(f"{people_server.url}/activity")
        await expect(page.locator(".row.good")).to_have_count(3)

        await page.get_by_role("link", name="People").click()
        await page.get_by_label("User name").fill("dan")
        await page.get_by_role("button", name="Make an account").click()
        dan = page.locator("[data-account=dan]")
        await page.get_by_role("button", name="New key: dan").click()
        secret = str(await page.locator(".secret code").text_content())
        assert who_is(people_server, secret).json()["username"] == "dan"
        await page.get_by_role("button", name="Disable: dan").click()
        await expect(dan).to_contain_text("disabled")
        assert who_is(people_server, secret).status_code == 401
        await dan.get_by_role("button", name="Delete").click()
        await dan.get_by_role("group").get_by_role("button", name="Delete").click()
        await expect(dan).to_have_count(0)
        await expect(page.locator("[data-account=ada]")).to_have_text(re.compile("ada"))
