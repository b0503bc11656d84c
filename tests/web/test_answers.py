"""What the list of passages says: words, meaning, filters, misspellings, and one answer for the last letter."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Page, Response, Route, expect

from tests.support.browser import PageReports
from tests.support.server_process import ServerProcess
from tests.web.library import LAMP_LINES, SCAN_LINES
from tests.web.steps import (
    QUESTION,
    ask,
    check_boxes_on_lines,
    is_search,
    is_search_for,
    read_body,
    serve_changed,
    wait_for_answer,
)

TOMATOES = "how are tomatoes grown"


async def search(page: Page, server: ServerProcess, question: str) -> dict[str, Any]:
    """Open the page with a question in its address and return the answer that it got."""

    def is_answer(response: Response) -> bool:
        return is_search(response.request) and "document_id" not in read_body(response.request)

    async with page.expect_response(is_answer) as waiting:
        await page.goto(f"{server.url}/?q={question.replace(' ', '+')}")
    answer: dict[str, Any] = await (await waiting.value).json()
    await wait_for_answer(page)
    return answer


async def test_a_passage_over_a_page_break_is_marked_on_both_pages(page: Page, server: ServerProcess) -> None:
    await (await ask(page, server, "pilots of the harbour")).locator("a.go").click()
    heading, body = (page.locator(f".sheet[data-page='{number}'] .boxes rect.best") for number in (1, 2))
    await expect(heading).to_have_count(1)
    await expect(body).to_have_count(5)
    assert float(await heading.get_attribute("y") or 0) > 0.85
    assert max(await body.evaluate_all("(boxes) => boxes.map((box) => Number(box.getAttribute('y')))")) < 0.2
    await page.get_by_role("button", name="Text", exact=True).click()
    await expect(page.locator(".passage.here")).to_contain_text("blue lantern")


async def test_a_scan_is_marked_by_its_recognized_words_and_has_a_text(page: Page, server: ServerProcess) -> None:
    await (await ask(page, server, "when are the hives moved")).locator("a.go").click()
    sheet = page.locator(".sheet[data-page='1']")
    await expect(sheet.locator("img")).to_have_js_property("complete", True)
    await expect(sheet.locator(".boxes rect.best")).to_have_count(len(SCAN_LINES))
    await expect(sheet.locator(".words text").filter(has_text="beekeeper").first).to_be_attached()
    await expect(page.locator(".reader .note")).to_have_count(0)
    await page.get_by_role("button", name="Text", exact=True).click()
    await expect(page.locator(".passage.here")).to_contain_text("Heather honey is harvested in September")


async def test_a_misspelt_word_says_what_was_searched_instead(page: Page, server: ServerProcess) -> None:
    answer = await search(page, server, "lighthuose lamp")
    assert answer["misspelt"] == {"lighthuose": ["lighthouse"]}
    await expect(page.locator(".note")).to_contain_text(
        "“lighthuose” stands nowhere here. Also searched for lighthouse."
    )
    await expect(page.locator(".hit").first).to_contain_text("lighthouse")


async def test_a_question_about_something_else_is_answered_honestly(page: Page, server: ServerProcess) -> None:
    answer = await search(page, server, "quantum chromodynamics of gluons")
    assert answer["results"][0]["score"] < 0.5
    await expect(page.locator(".note")).to_contain_text("Nothing here is clearly about that.")
    await expect(page.locator(".note")).to_contain_text("“chromodynamics”")
    await expect(page.locator(".note")).to_contain_text("stand nowhere here.")
    await expect(page.locator(".groups").first.locator(".hit")).to_have_count(5)
    await expect(page.locator("details.far > summary")).to_contain_text("more")
    await expect(page.locator("details.far .hit").first).to_be_hidden()


async def test_a_word_that_stands_nowhere_is_named(page: Page, server: ServerProcess) -> None:
    await search(page, server, "lighthouse lamp zyxwvutsr")
    await expect(page.locator(".note")).to_contain_text("“zyxwvutsr” stands nowhere here.")
    await expect(page.locator(".group h2").first).to_contain_text("Lighthouse handbook")


async def test_the_bar_of_words_and_meaning_is_as_long_as_the_score(page: Page, server: ServerProcess) -> None:
    answer = await search(page, server, TOMATOES)
    scores = {f"{hit['document_uid']}-{hit['chunk_index']}": hit["score"] for hit in answer["results"]}
    hits = page.locator(".groups").first.locator(".hit")
    assert await hits.count() >= 2
    for hit in await hits.all():
        score = scores[str(await hit.locator("a.go").get_attribute("data-hit"))]
        await hit.locator("button.score").click()
        why = hit.locator(".why")
        widths = [float(str(await why.locator(f"rect.{kind}").get_attribute("width"))) for kind in ("words", "meaning")]
        assert abs(sum(widths) - 100 * score) <= 0.02
        values = [float(re.findall(r"\d\.\d+", text)[0]) for text in await why.locator("dd").all_inner_texts()]
        assert abs(values[0] + values[1] - values[2]) <= 0.011 and abs(values[2] - score) <= 0.0051
        await expect(hit.locator("button.score")).to_have_attribute("aria-expanded", "true")


async def test_chips_narrow_the_results_to_as_many_as_they_say(page: Page, server: ServerProcess) -> None:
    await search(page, server, TOMATOES)
    chips, shown = page.locator("button.chip"), page.locator(".groups").first.locator(".hit")
    labels = await chips.all_inner_texts()
    assert {re.sub(r"\s*\d+$", "", label) for label in labels} >= {"md", "txt", "Balcony", "tomato"}, labels
    for label in labels:
        name, count = re.fullmatch(r"(.+?)\s*(\d+)", label).groups()  # type: ignore[union-attr]
        chip = chips.filter(has_text=re.compile(rf"^{re.escape(name)}\s*\d*$"))
        await chip.click()
        await expect(chip).to_have_attribute("aria-pressed", "true")
        await expect(shown).to_have_count(int(count))
        await expect(page).to_have_url(re.compile(r"[?&](type|collection|tag)="))
        await chip.click()
        await expect(chip).to_have_attribute("aria-pressed", "false")
        await expect(chips).to_have_count(len(labels))
    await chips.filter(has_text="Balcony").click()
    await expect(page.locator(".group h2")).to_have_count(2)
    await page.reload()
    await expect(chips.filter(has_text="Balcony")).to_have_attribute("aria-pressed", "true")
    await expect(page.locator(".group h2")).to_have_count(2)


async def test_ten_quick_letters_show_one_answer_and_abort_the_older_questions(
    page: Page, server: ServerProcess
) -> None:
    await page.goto(f"{server.url}/")
    held: list[Route] = []
    shown: list[str] = []

    async def hold(route: Route) -> None:
        if read_body(route.request)["query"] == "sour":
            held.append(route)
        else:
            await route.continue_()

    await page.route("**/api/v1/search", hold)
    field = page.get_by_role("searchbox")
    async with page.expect_request(lambda request: is_search_for(request, "sour")):
        await field.press_sequentially("sour")
    page.on(
        "requestfinished", lambda request: shown.append(read_body(request)["query"]) if is_search(request) else None
    )
    async with page.expect_event("requestfailed", lambda request: is_search_for(request, "sour")) as waiting:
        await field.press_sequentially("dough bread")
    assert "ABORTED" in str((await waiting.value).failure)
    await expect(page.locator(".group h2").first).to_contain_text("Sourdough bread")
    await expect(page).to_have_url(re.compile(r"\?q=sourdough\+bread$"))
    await page.wait_for_load_state("networkidle") if "sourdough bread" not in shown else None
    assert held and shown[-1] == "sourdough bread"


async def test_the_answer_of_an_older_question_is_not_drawn_after_a_newer_one(
    page: Page, server: ServerProcess
) -> None:
    await page.goto(f"{server.url}/")
    drawn: list[str] = []
    await page.expose_function("noteTitle", lambda title: drawn.append(title))
    await page.evaluate(
        """() => new MutationObserver(() => {
          const title = document.querySelector(".group h2 a")?.textContent;
          if (title) window.noteTitle(title);
        }).observe(document.getElementById("app"), { childList: true, subtree: true, characterData: true })"""
    )
    field = page.get_by_role("searchbox")
    await field.press_sequentially("fresnel lens")
    await field.fill("sourdough starter")
    await expect(page.locator(".group h2").first).to_contain_text("Sourdough bread")
    await wait_for_answer(page)
    assert drawn and drawn[-1] == "Sourdough bread"
    assert "Lighthouse handbook" not in drawn[drawn.index("Sourdough bread") :]


async def test_a_build_with_boxes_moved_by_a_line_fails_the_test_of_boxes(page: Page, server: ServerProcess) -> None:
    await serve_changed(page, "parts/sheets.js", "y: y0 - 0.0015", "y: y0 - 0.0015 + 15 / 842")
    await (await ask(page, server)).locator("a.go").click()
    moved = False
    try:
        await check_boxes_on_lines(page)
    except AssertionError as error:
        moved = "has its box at" in str(error)
    assert moved, "the test of boxes does not see that they are a line too low"


async def test_a_build_with_inner_html_fails_every_test_of_the_page(
    page: Page, server: ServerProcess, reports: PageReports
) -> None:
    """Trusted Types refuse the assignment, the error is on the console, and the list of errors would fail a test."""
    change = 'queueMicrotask(() => { document.querySelector(".hit .text").innerHTML = hit.text; });'
    await serve_changed(page, "parts/hit.js", "const key = hitKey(hit),", f"{change} const key = hitKey(hit),")
    await page.goto(f"{server.url}/")
    async with page.expect_event("pageerror"):
        await page.get_by_role("searchbox").press_sequentially(QUESTION)
    assert any("TrustedHTML" in error for error in reports.list_unexpected())
    await expect(page.locator(".hit .text").first).to_contain_text(LAMP_LINES[0][:20])
    reports.errors.clear()
    reports.expected.append("TrustedHTML")


async def test_a_passage_of_source_code_shows_its_lines(page: Page, server: ServerProcess) -> None:
    async def answer(route: Route) -> None:
        fetched = await route.fetch()
        body = await fetched.json()
        for hit in body["results"]:
            hit["lines"] = [3, 9]
        await route.fulfill(response=fetched, json=body)

    await page.route("**/api/v1/search", answer)
    await expect((await ask(page, server)).locator(".where")).to_contain_text("lines 3–9")
