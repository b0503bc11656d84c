"""What people do on the page, from the first letter to the marked passage."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.support.browser import PageReports
from tests.support.server_process import ServerProcess
from tests.web.library import BREAD, GARDEN, HANDBOOK, make_handbook
from tests.web.steps import QUESTION, ask, check_boxes_on_lines, drop_files


async def test_type_read_open_the_page_with_boxes_and_return_to_the_passage(page: Page, server: ServerProcess) -> None:
    hit = await ask(page, server)
    await expect(hit.locator("mark").first).to_be_visible()
    await expect(page.locator(".group h2").first).to_contain_text("Lighthouse handbook")
    await page.keyboard.press("Enter")
    await expect(hit.locator("a.go")).to_be_focused()
    await page.keyboard.press("Enter")
    reader = page.get_by_role("article", name="Document")
    await expect(reader.locator(".sheet[data-page='1'] .boxes rect.best").first).to_be_attached()
    picture = reader.locator(".sheet[data-page='1'] img")
    await expect(picture).to_have_js_property("complete", True)
    assert await picture.evaluate("(image) => image.naturalWidth") in (900, 1600)
    await expect(reader.locator(".body")).to_be_focused()
    await expect(page).to_have_url(re.compile(r"\?q=how.*&d=[0-9a-f-]{36}&at=\d+$"))
    await page.keyboard.press("Escape")
    await expect(reader).to_have_count(0)
    await expect(hit.locator("a.go")).to_be_focused()


async def test_the_boxes_lie_on_the_lines_of_the_passage(page: Page, server: ServerProcess) -> None:
    await (await ask(page, server)).locator("a.go").click()
    await check_boxes_on_lines(page)


async def test_words_of_a_drawn_page_can_be_selected_and_copied(page: Page, server: ServerProcess) -> None:
    await (await ask(page, server)).locator("a.go").click()
    words = page.locator(".sheet[data-page='1'] .words text")
    await expect(words.filter(has_text="lighthouse").first).to_be_attached()
    copied = await page.locator(".sheet[data-page='1']").evaluate(
        """(sheet) => new Promise((resolve) => {
          const words = sheet.querySelectorAll(".words text");
          getSelection().setBaseAndExtent(words[0].firstChild, 0, words[12].firstChild, 3);
          const read = (event) => resolve(event.clipboardData.getData("text/plain"));
          document.addEventListener("copy", read, { once: true });
          document.execCommand("copy");
        })"""
    )
    assert copied.startswith("The lamp of the lighthouse is lit every evening at sunset.\nThe keeper")


async def test_a_link_a_reload_and_the_back_button_keep_the_place(page: Page, server: ServerProcess) -> None:
    await (await ask(page, server)).locator("a.go").click()
    best = page.locator(".boxes rect.best").first
    await expect(best).to_be_attached()
    place = page.url
    await page.reload()
    await expect(best).to_be_attached()
    await expect(page.get_by_role("searchbox")).to_have_value(QUESTION)
    await expect(page.locator(".hit.here")).to_have_count(1)
    assert page.url == place
    await page.get_by_role("button", name="Text", exact=True).click()
    await expect(page.locator(".passage.here")).to_contain_text("wick")
    await page.reload()
    await expect(page.locator(".passage.here")).to_contain_text("wick")
    await page.go_back()
    await expect(page.locator(".reader")).to_have_count(0)
    await expect(page.locator(".hit").first).to_be_visible()
    await page.go_forward()
    await expect(page.locator(".reader h2")).to_contain_text("Lighthouse handbook")


async def test_a_copied_link_opens_the_document_alone_at_the_passage(page: Page, server: ServerProcess) -> None:
    hit = await ask(page, server)
    address = await hit.locator("a.go").get_attribute("href")
    assert address is not None
    uid, at = re.search(r"d=([0-9a-f-]{36})&at=(\d+)", address).groups()  # type: ignore[union-attr]
    await page.goto(f"{server.url}/d/{uid}?at={at}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Lighthouse handbook")
    await expect(page.locator(".boxes rect.best").first).to_be_attached()
    await expect(page).to_have_title(re.compile("Lighthouse handbook"))


async def test_three_dropped_files_are_found_without_a_reload(page: Page, empty_server: ServerProcess) -> None:
    await page.goto(f"{empty_server.url}/")
    await expect(page.get_by_text("Nothing is in here yet.")).to_be_visible()
    files = {HANDBOOK: make_handbook(), "Bread.md": BREAD.encode(), "Garden.txt": GARDEN.encode()}
    await drop_files(page, files)
    tray = page.get_by_role("complementary", name="Added files")
    await expect(tray.locator(".row.good")).to_have_count(3)
    await expect(tray).to_contain_text("ready to be found")
    await page.get_by_role("searchbox").press_sequentially("when are tomato seedlings planted")
    await expect(page.locator(".group h2").first).to_contain_text("Garden")
    await page.goto(f"{empty_server.url}/activity")
    await expect(page.locator(".row.good")).to_have_count(3)


async def test_the_tests_see_an_error_on_the_console(page: Page, server: ServerProcess, reports: PageReports) -> None:
    """A script in a page is refused by the policy, and the report of it would fail any other test."""
    await page.goto(f"{server.url}/settings")
    refused = await page.evaluate(
        """() => [
          () => { document.body.innerHTML = "<b>x</b>"; },
          () => { document.createElement("script").textContent = "window.pwned = 1"; },
        ].map((act) => { try { act(); return "done"; } catch (error) { return error.name; } })"""
    )
    assert refused == ["TypeError", "TypeError"]
    assert await page.evaluate("window.pwned") is None
    unexpected = reports.list_unexpected()
    assert len(unexpected) >= 2 and all(
        "Trusted" in error or "Content Security Policy" in error for error in unexpected
    )
    reports.errors.clear()
