"""The page for everybody: axe-core on every page, the keyboard alone, a phone, and a narrow window."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.support.axe import list_violations, read_axe
from tests.support.browser import PageReports
from tests.support.server_process import ServerProcess
from tests.web.conftest import WAIT_MS
from tests.web.steps import QUESTION, ask, is_search_for

PHONE = {"width": 390, "height": 844}
LOOKS = [
    pytest.param("light", 1440, id="light-1440"),
    pytest.param("dark", 390, id="dark-390", marks=pytest.mark.long),
    pytest.param("light", 390, id="light-390", marks=pytest.mark.long),
    pytest.param("dark", 1440, id="dark-1440", marks=pytest.mark.long),
]
VIEWS = {
    "/": ".recent",
    f"/?q={QUESTION.replace(' ', '+')}": ".hit",
    "/?q=quantum+chromodynamics": ".note",
    "/d/{uid}?at=0&q=lamp": ".boxes rect",
    "/d/{uid}?at=0&q=lamp&view=text": ".passage.here",
    "/?q=lamp&d={uid}&at=0": ".boxes rect",
    "/add": ".dropzone",
    "/add?what=note": "textarea",
    "/add?what=site": "input[type=url]",
    "/activity": ".row",
    "/activity?show=failed": ".none",
    "/agents": ".toolset",
    "/insight": ".plots",
    "/settings": "select",
    "/settings?show=corpora": ".inline",
    "/settings?show=server": ".care",
    "/people": ".inline",
    "/map": ".mapping h1",
    "/login": "form.login",
    "/library": "tbody tr",
    "/d/{uid}/edit": "form input",
}


@pytest.fixture(scope="module")
def handbook(server: ServerProcess) -> str:
    """The UUID of the handbook."""
    found = server.http.get("/documents", params={"q": "Lighthouse"}).json()["documents"]
    return str(found[0]["uid"])


@pytest.mark.parametrize(("colours", "width"), LOOKS)
async def test_axe_finds_nothing_on_any_page(
    page: Page, server: ServerProcess, handbook: str, colours: str, width: int
) -> None:
    axe = read_axe()
    await page.set_viewport_size({"width": width, "height": 900})
    await page.emulate_media(color_scheme="dark" if colours == "dark" else "light", reduced_motion="reduce")
    found = {}
    for path, sign in VIEWS.items():
        await page.goto(f"{server.url}{path.format(uid=handbook)}")
        await expect(page.locator(sign).first).to_be_attached()
        if violations := await list_violations(page, axe):
            found[path] = violations
    assert found == {}


async def test_axe_finds_nothing_in_the_list_of_keys_and_in_why(page: Page, server: ServerProcess) -> None:
    axe = read_axe()
    hit = await ask(page, server)
    await hit.locator("button.score").click()
    await expect(hit.locator(".why")).to_be_visible()
    assert await list_violations(page, axe) == []
    await hit.locator("a.go").focus()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    assert await list_violations(page, axe) == []


async def test_axe_sees_a_fault(page: Page, server: ServerProcess) -> None:
    axe = read_axe()
    await page.goto(f"{server.url}/settings")
    await expect(page.locator("select").first).to_be_visible()
    await page.evaluate("document.body.append(document.createElement('button'))")
    found = await list_violations(page, axe)
    assert any(line.startswith("button-name") for line in found), found


async def test_a_question_is_asked_read_and_left_with_the_keyboard_alone(page: Page, server: ServerProcess) -> None:
    await page.goto(f"{server.url}/settings")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.keyboard.press("/")
    field = page.get_by_role("searchbox")
    await expect(field).to_be_focused()
    await page.keyboard.type("tomatoes")
    hits = page.locator(".groups").first.locator(".hit")
    await expect(hits.nth(1)).to_be_visible()
    await expect(page.locator(".group h2").first).to_contain_text(re.compile("Garden|omato|Balcony"))
    await page.keyboard.press("ArrowDown")
    await expect(hits.nth(0).locator("a.go")).to_be_focused()
    await page.keyboard.press("j")
    await expect(hits.nth(1).locator("a.go")).to_be_focused()
    await page.keyboard.press("k")
    await expect(hits.nth(0).locator("a.go")).to_be_focused()
    await page.keyboard.press("e")
    await expect(hits.nth(0).locator(".why")).to_be_visible()
    await page.keyboard.press("ArrowUp")
    await expect(field).to_be_focused()
    await page.keyboard.press("Control+a")
    async with page.expect_response(lambda response: is_search_for(response.request, QUESTION)) as waiting:
        await page.keyboard.type(QUESTION)
    best = (await (await waiting.value).json())["results"][0]
    await expect(hits.nth(0).locator("a.go")).to_have_attribute(
        "data-hit", f"{best['document_uid']}-{best['chunk_index']}"
    )
    await page.keyboard.press("Enter")
    await expect(hits.nth(0).locator("a.go")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(".reader .body")).to_be_focused()
    await expect(page.locator(".boxes rect.best").first).to_be_attached()
    await page.keyboard.press("t")
    await expect(page.locator(".passage.here")).to_contain_text("wick")
    await page.keyboard.press("Escape")
    await expect(page.locator(".reader")).to_have_count(0)
    await expect(hits.nth(0).locator("a.go")).to_be_focused()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("Keyboard")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("g")
    await page.keyboard.press("a")
    await expect(page.get_by_role("heading", name="Activity")).to_be_visible()
    await page.keyboard.press("a")
    await expect(page.get_by_role("heading", name="Add to your knowledge")).to_be_visible()


async def test_every_control_is_reached_by_tab_in_the_order_of_the_screen(page: Page, server: ServerProcess) -> None:
    await ask(page, server)
    await page.locator("a.brand").focus()
    await page.keyboard.press("Shift+Tab")
    await expect(page.locator("a.skip")).to_be_focused()
    order = await page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
          .filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility())
          .map((each, place) => (each.dataset.place = place))"""
    )
    reached = [int(str(await page.locator(":focus").get_attribute("data-place")))]
    while len(reached) < len(order):
        await page.keyboard.press("Tab")
        focused = page.locator(":focus")
        reached.append(int(str(await focused.get_attribute("data-place"))))
        assert await focused.evaluate("(each) => getComputedStyle(each).outlineStyle !== 'none'"), (
            "no ring of the focus"
        )
    assert reached == list(order)


async def test_single_letters_can_be_switched_off(page: Page, server: ServerProcess) -> None:
    await page.goto(f"{server.url}/settings")
    letters = page.get_by_label("Single letters are shortcuts outside of fields")
    await letters.uncheck()
    await letters.blur()
    await page.keyboard.press("a")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    await letters.check()


async def test_what_was_found_is_told_to_screen_readers_when_the_typing_rests(
    page: Page, server: ServerProcess
) -> None:
    await ask(page, server)
    await expect(page.locator("p.hidden[role=status]")).to_have_text(re.compile(r"^\d+ passages? in \d+ document"))


@pytest_asyncio.fixture(loop_scope="session")
async def phone(browser: Browser, reports: PageReports) -> AsyncIterator[Page]:
    context = await browser.new_context(
        viewport={"width": PHONE["width"], "height": PHONE["height"]}, device_scale_factor=3, is_mobile=True,
        has_touch=True, locale="en-GB",
    )  # fmt: skip
    context.set_default_timeout(WAIT_MS)
    opened = await context.new_page()
    reports.watch(opened)
    yield opened
    await context.close()


async def test_a_passage_is_found_and_read_on_a_phone(phone: Page, server: ServerProcess) -> None:
    hit = await ask(phone, server)
    await hit.locator("a.go").tap()
    reader = phone.locator(".reader")
    await expect(reader.locator(".boxes rect.best").first).to_be_attached()
    box = await reader.bounding_box()
    assert box is not None and box["width"] == PHONE["width"]
    await expect(hit).not_to_be_in_viewport()
    await reader.get_by_role("button", name="Close the document").tap()
    await expect(reader).to_have_count(0)
    await expect(hit).to_be_visible()
    for link in await phone.locator("nav.main a").all():
        await expect(link).to_be_in_viewport(ratio=1)
    await expect(phone.get_by_role("navigation", name="Main").get_by_role("link")).to_have_count(5)
    await phone.get_by_role("link", name="Activity").tap()
    await expect(phone.locator(".row.good").first).to_be_visible()


async def list_wide_and_small(page: Page) -> list[str]:
    """Return what makes the page scroll sideways, and controls that are too small for a finger."""
    found: list[str] = await page.evaluate(
        """() => {
          const { scrollWidth } = document.documentElement;
          const wide = scrollWidth > innerWidth ? [`${scrollWidth} px wide`] : [];
          const small = [...document.querySelectorAll("button, a.chip, .bar a, select, input:not(.hidden)")]
            .filter((each) => each.checkVisibility() && !each.closest("label.choice, .ticks, p, .skip, .words"))
            .map((each) => [each, each.getBoundingClientRect()])
            .filter(([each, box]) => !each.matches(".skip") && box.width > 0 && (box.width < 24 || box.height < 24))
            .map(([each, box]) => `${each.outerHTML.slice(0, 80)} is ${box.width} x ${box.height}`);
          return [...wide, ...small];
        }"""
    )
    return found


@pytest.mark.parametrize("width", [pytest.param(390, marks=pytest.mark.long), 320])
async def test_no_page_scrolls_sideways_and_every_control_fits_a_finger(
    phone: Page, server: ServerProcess, handbook: str, width: int
) -> None:
    await phone.set_viewport_size({"width": width, "height": 700})
    found = {}
    for path, sign in VIEWS.items():
        await phone.goto(f"{server.url}{path.format(uid=handbook)}")
        await expect(phone.locator(sign).first).to_be_attached()
        if faults := await list_wide_and_small(phone):
            found[path] = faults
    assert found == {}
