"""Accounts on the page: register, log in, a wrong password, and a session that ends while somebody types."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.browser import PageReports
from tests.support.server_process import ServerProcess
from tests.web.library import OPERATOR_KEY
from tests.web.steps import PASSWORD, fill_login, register

DRAFT = "The keeper of the bees writes down when the lime trees bloom."


@pytest.fixture(autouse=True)
def refused_calls_are_expected(reports: PageReports) -> None:
    """A browser reports every 401 on the console."""
    reports.expected.append("401")


def end_sessions(server: ServerProcess, username: str) -> None:
    """End the sessions of an account from another browser."""
    own = {"origin": server.url, "sec-fetch-site": "same-origin"}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=own) as http:
        assert http.post("/session", json={"username": username, "password": PASSWORD}).status_code == 200
        others = [each for each in http.get("/sessions").json()["sessions"] if not each["current"]]
        assert others
        for each in others:
            assert http.delete(f"/sessions/{each['id']}").is_success


async def test_an_account_registers_logs_out_and_logs_in_again(page: Page, locked_server: ServerProcess) -> None:
    await register(page, locked_server, "ada")
    await page.get_by_role("link", name="ada").click()
    await expect(page.get_by_text("You are logged in as ada.")).to_be_visible()
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await expect(page.get_by_role("searchbox")).to_have_count(0)
    assert await page.context.cookies() == []
    await fill_login(page, "ada", "a wrong password")
    await page.get_by_role("button", name="Log in").click()
    problem = page.get_by_role("alert")
    await expect(problem).to_be_visible()
    wrong_password = str(await problem.text_content())
    await expect(page.get_by_label("User name")).to_have_value("ada")
    await fill_login(page, "nobody", "a wrong password")
    async with page.expect_response(lambda answer: answer.url.endswith("/session") and answer.request.method == "POST"):
        await page.get_by_role("button", name="Log in").click()
    await expect(problem).to_have_text(wrong_password)
    await fill_login(page, "ada", PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("searchbox")).to_be_visible()


async def test_the_operator_logs_in_with_the_key(page: Page, locked_server: ServerProcess) -> None:
    await page.goto(f"{locked_server.url}/activity")
    await page.get_by_role("button", name="Use the operator’s key").click()
    await page.get_by_label("Operator’s key").fill(OPERATOR_KEY)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", name="Activity")).to_be_visible()
    stored = await page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])")
    assert OPERATOR_KEY not in stored and "knowledge_session" not in stored


async def test_a_session_that_ends_while_somebody_types_loses_nothing(page: Page, locked_server: ServerProcess) -> None:
    await register(page, locked_server, "bea")
    await page.get_by_role("searchbox").press_sequentially("when do the lime trees")
    end_sessions(locked_server, "bea")
    await page.keyboard.insert_text(" bloom")  # at once: the dialog takes the focus from the field
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Your session has ended")
    await expect(page.locator("#q")).to_have_value("when do the lime trees bloom")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_visible()
    await fill_login(page, "bea", PASSWORD)
    await dialog.get_by_role("button", name="Log in").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("searchbox")).to_have_value("when do the lime trees bloom")
    await expect(page.locator("#found")).to_have_text("Nothing found")
    await expect(page).to_have_url(re.compile(r"bloom$"))


async def test_a_note_is_saved_although_the_session_ended_before(page: Page, locked_server: ServerProcess) -> None:
    await register(page, locked_server, "cyd")
    await page.goto(f"{locked_server.url}/add?what=note")
    await page.get_by_label("Text").press_sequentially(DRAFT)
    end_sessions(locked_server, "cyd")
    # The events may end first and open the dialog, which keeps the mouse from the button.
    await page.locator("form.sheetform").evaluate("(form) => form.requestSubmit()")
    dialog = page.get_by_role("dialog")
    await fill_login(page, "cyd", PASSWORD)
    await dialog.get_by_role("button", name="Log in").click()
    await expect(page.get_by_text("The note was added.")).to_be_visible()
    await page.get_by_role("link", name="Activity").click()
    await expect(page.locator(".row.good").first).to_be_visible()
    await page.get_by_role("link", name="Search").click()
    await page.get_by_role("searchbox").press_sequentially("when do the lime trees bloom")
    await expect(page.locator(".hit").first).to_contain_text("lime trees bloom")


async def test_another_account_sees_nothing_of_the_former(page: Page, locked_server: ServerProcess) -> None:
    await register(page, locked_server, "dan")
    await page.goto(f"{locked_server.url}/add?what=note")
    await page.get_by_label("Text").fill("The password of the safe is marzipan.")
    await page.get_by_role("button", name="Add the note").click()
    await expect(page.get_by_text("The note was added.")).to_be_visible()
    await page.goto(f"{locked_server.url}/settings")
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await register(page, locked_server, "eve")
    await page.get_by_role("searchbox").press_sequentially("marzipan")
    await expect(page.locator("#found")).to_have_text("Nothing found")
    await page.goto(f"{locked_server.url}/activity")
    await expect(page.get_by_text("Nothing has been added yet.")).to_be_visible()
    await page.goto(f"{locked_server.url}/add?what=note")
    await expect(page.get_by_label("Text")).to_have_value("")
