"""Takes a picture of every page, wide and on a phone, in light and dark colours, into build/screenshots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, Page, ViewportSize, expect
from scripts.pictures.library import QUESTION
from scripts.pictures.people import PASSWORD, SharedServer

WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 780}
PHONE_SCALE, SCALE = 2, 1.5
WAIT_MS = 60_000
ASKED = QUESTION.replace(" ", "+")


@dataclass(frozen=True, slots=True)
class View:
    name: str
    path: str
    sign: str
    """What is visible when the page is complete."""
    is_main: bool = False
    """Also taken in dark colours."""
    on_phone: bool = False
    press: str = ""
    """The name of a button to press first."""


OPEN_VIEWS = (
    View("home", "/", ".recent a", is_main=True, on_phone=True),
    View("search", f"/?q={ASKED}", ".hit", is_main=True, on_phone=True),
    View("nothing-clear", "/?q=quantum+chromodynamics", ".note"),
    View("reader", f"/?q={ASKED}&d={{paper}}&at={{passage}}", ".boxes rect", is_main=True, on_phone=True),
    View("reader-text", "/d/{handbook}?view=text", ".prose"),
    View("library", "/library", "tbody tr", is_main=True, on_phone=True),
    View("library-pictures", "/library", ".pictures li", is_main=True, on_phone=True, press="Pictures"),
    View("library-none", "/library?q=zeppelin", ".none"),
    View("edit", "/d/{note}/edit", "form textarea", is_main=True, on_phone=True),
    View("add", "/add", ".dropzone", on_phone=True),
    View("add-note", "/add?what=note", "textarea"),
    View("add-site", "/add?what=site", "input[type=url]"),
    View("activity", "/activity", ".row", is_main=True, on_phone=True),
    View("activity-none", "/activity?show=failed", ".none"),
    View("crawl", "/activity/crawls/{crawl}", ".row", on_phone=True),
    View("map", "/map", ".legend li", is_main=True, on_phone=True),
    View("map-lit", f"/map?q={ASKED}", ".groups-list a"),
    View("agents", "/agents", ".toolset", is_main=True, on_phone=True),
    View("insight", "/insight", ".plots", is_main=True, on_phone=True),
    View("settings-local", "/settings", "select"),
    View("settings-server", "/settings?show=server", ".care", is_main=True, on_phone=True),
)
ENTRY_VIEWS = (View("login", "/login", "form.login", is_main=True, on_phone=True),)
ADMIN_VIEWS = (View("people", "/people", ".row", is_main=True, on_phone=True),)
ACCOUNT_VIEWS = (
    View("settings-you", "/settings", ".meter", is_main=True, on_phone=True),
    View("settings-corpora", "/settings?show=corpora", ".row", is_main=True, on_phone=True),
    View("agents-account", "/agents", ".arrival"),
)


async def open_page(browser: Browser, size: ViewportSize, theme: str) -> Page:
    phone = size == PHONE
    context = await browser.new_context(
        viewport=size, locale="en-GB", color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce",
        device_scale_factor=PHONE_SCALE if phone else SCALE, is_mobile=phone, has_touch=phone,
    )  # fmt: skip
    context.set_default_timeout(WAIT_MS)
    return await context.new_page()


async def shoot(page: Page, path: Path) -> None:
    await page.mouse.move(0, 0)
    await page.screenshot(path=path, animations="disabled", caret="hide", type="jpeg", quality=80)


async def visit(page: Page, url: str, views: tuple[View, ...], look: str, folder: Path, uids: dict[str, str]) -> None:
    """Take the views that this look shows."""
    for view in views:
        if (look.startswith("phone") and not view.on_phone) or (look == "dark" and not view.is_main):
            continue
        await page.goto(f"{url}{view.path.format(**uids)}")
        if view.press:
            await page.get_by_role("button", name=view.press, exact=True).click()
        await expect(page.locator(view.sign).first).to_be_visible()
        for picture in await page.locator(".picture img, .sheet:first-child img").all():
            await expect(picture).to_have_js_property("complete", True)
        await shoot(page, folder / f"{view.name}-{look}.jpg")
        if view.press:
            await page.evaluate("localStorage.clear()")


async def log_in(page: Page, url: str, username: str) -> None:
    await page.goto(f"{url}/login")
    await page.get_by_label("User name").fill(username)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in", exact=True).click()
    await expect(page.get_by_role("searchbox")).to_be_visible()


async def show_consent(page: Page, shared: SharedServer, look: str, folder: Path) -> None:
    """Open the login and the consent page that an app of OAuth opens."""
    await page.goto(await shared.start_authorization())
    await shoot(page, folder / f"oauth-login-{look}.jpg")
    await page.get_by_label("Username").fill("ada")
    await page.get_by_label("Password or API key").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("button", name="Allow")).to_be_visible()
    await shoot(page, folder / f"oauth-consent-{look}.jpg")


async def take_tour(browser: Browser, url: str, shared: SharedServer, uids: dict[str, str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for look, theme, size in (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE)):
        page = await open_page(browser, size, theme)
        await visit(page, url, OPEN_VIEWS, look, folder, uids)
        await page.context.close()
        page = await open_page(browser, size, theme)
        await visit(page, shared.url, ENTRY_VIEWS, look, folder, uids)
        await log_in(page, shared.url, "ada")
        await visit(page, shared.url, ACCOUNT_VIEWS, look, folder, uids)
        await page.context.clear_cookies()
        await log_in(page, shared.url, "root")
        await visit(page, shared.url, ADMIN_VIEWS, look, folder, uids)
        await page.context.clear_cookies()
        await show_consent(page, shared, look, folder)
        await page.context.close()
