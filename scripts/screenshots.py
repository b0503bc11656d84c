"""Takes pictures of every page from real servers (`make screenshots`).

A server with the default model gets a small invented library, another one accounts; Chromium opens the pages in light
and dark colours, wide and on a phone. The few pictures of the documentation are written to docs/images as WebP, those
of every page to build/screenshots; `--tour` takes only these. KNOWLEDGE_TEST_BROWSER names another Chromium.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote_plus

import httpx
from PIL import Image
from playwright.async_api import Page, ViewportSize, async_playwright, expect
from scripts.pictures.library import NOTES, QUESTION, make_samples, read_logbook
from scripts.pictures.people import SharedServer, run_shared_server
from scripts.pictures.tour import PHONE, WAIT_MS, WIDE, open_page, take_tour

from tests.support.browser import NO_BROWSER, find_browser, list_flags
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.support.web_site import SiteReply, WebSite, serve_site

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TOUR = Path(__file__).parents[1] / "build" / "screenshots"
LARGE: ViewportSize = {"width": 1200, "height": 720}
MEDIUM: ViewportSize = {"width": 1040, "height": 660}
QUALITIES, WIDTHS, MAX_BYTES = (80, 70, 60), (2160, 1800, 1440), 150_000
GAP, BOARD = 48, (128, 128, 128)
SETTINGS = {
    "KNOWLEDGE_EMBEDDING": "default", "KNOWLEDGE_RERANKER": "none", "KNOWLEDGE_QUERY_LOG": "1",
    "KNOWLEDGE_CRAWL_ALLOW": "127.0.0.1", "KNOWLEDGE_CRAWL_DELAY": "0",
}  # fmt: skip
SITE = {
    "/": (
        "Tide tables of the bay",
        "High and low water at the harbour wall, in summer time, with the heights in metres.",
    ),
    "/tides": ("Tides of this week", "On Monday high water is at 6.12 and 18.37, with 3.9 metres in the evening."),
    "/tides/springs": ("Spring tides", "Spring tides follow the new and the full moon by two days."),
}
UNANSWERED = ("who repairs the crane on the pier", "opening hours of the fish market", "warranty of the old inverter")
FONT_RULE = """<match target="pattern"><test name="family" qual="any"><string>{asked}</string></test>
<edit name="family" mode="assign" binding="strong">{used}</edit></match>
"""
FONTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("system-ui", "sans", "sans-serif", "DejaVu Sans"), ("Liberation Sans", "DejaVu Sans Condensed")),
    **dict.fromkeys(("monospace", "ui-monospace", "DejaVu Sans Mono"), ("Liberation Mono", "DejaVu Sans Mono")),
    **dict.fromkeys(("serif", "ui-serif", "DejaVu Serif"), ("Liberation Serif", "DejaVu Serif Condensed")),
}
"""Instead of DejaVu, the wide default of a bare Debian, fonts with the widths that most systems have."""


def write_font_rules(path: Path) -> None:
    """Write a configuration of fontconfig for the browser."""
    rules = "".join(
        FONT_RULE.format(asked=asked, used="".join(f"<string>{each}</string>" for each in used))
        for asked, used in FONTS.items()
    )
    system = '<include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
    path.write_text(
        f'<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>{rules}{system}</fontconfig>'
    )


def fill(server: ServerProcess) -> None:
    """Add the library and wait until everything can be found."""
    for name in ("research", "operations", "harbour", "office"):
        server.http.post("/collections", json={"name": name, "title": name.capitalize()}).raise_for_status()
    for note in [*read_logbook(), *NOTES]:
        fields = {"note": note.text, "title": note.title, "collection": note.collection, "tags": list(note.tags)}
        job = server.http.post("/jobs", json=fields)
        assert server.wait_for_outcome(job)["status"] == "completed"
    for sample in make_samples():
        fields = {"collection": sample.collection, "tags": list(sample.tags)}
        job = server.http.post("/jobs", files={"file": (sample.filename, sample.content)}, data=fields)
        assert server.wait_for_outcome(job)["status"] == "completed", sample.filename


def use(server: ServerProcess, site: WebSite) -> dict[str, str]:
    """Crawl a site, ask, and connect an agent; return the UUIDs that the addresses of the tour need."""
    for path, (title, text) in SITE.items():
        links = ("/tides", "/tides/springs", "/missing", "/private/plans") if path == "/" else ()
        site.put_page(path, *links, title=title, text=text)
    site.pages["/robots.txt"] = SiteReply("User-agent: *\nDisallow: /private/\n", content_type="text/plain")
    harbour = next(each for each in server.http.get("/collections").json()["collections"] if each["name"] == "harbour")
    crawl = server.crawl(f"{site.url}/", recursive=True, max_pages=10, source_id=harbour["id"])
    for question in UNANSWERED:
        server.http.post("/search", json={"query": question}).raise_for_status()
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude-code", "version": "2"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    accept = {"Accept": "application/json, text/event-stream", "User-Agent": "claude-code/2"}
    httpx.post(f"{server.url}/mcp", json=call, headers=accept).raise_for_status()

    def find(title: str) -> str:
        return str(server.http.get("/documents", params={"q": title}).json()["documents"][0]["uid"])

    asked = server.http.post("/search", json={"query": QUESTION}).json()["results"]
    paper, handbook, note = find("Summer loss"), find("handbook"), find("Slipway")
    passage = next(str(hit["chunk_index"]) for hit in asked if hit["document_uid"] == paper)
    return {"passage": passage, "paper": paper, "handbook": handbook, "note": note, "crawl": crawl["uid"]}


async def ask(page: Page, server: ServerProcess) -> None:
    """Type the question twice: the first time warms up the model."""
    for _ in range(2):
        await page.goto(f"{server.url}/")
        await page.get_by_role("searchbox").press_sequentially(QUESTION)
        await expect(page.locator("#found")).to_contain_text("passages in")
        await expect(page.locator(".groups.old")).to_have_count(0)


async def open_passage(page: Page) -> None:
    """Open the first passage of the paper and wait for its drawn page."""
    await page.locator(".group", has_text="summer loss").locator("a.go").first.click()
    await expect(page.locator(".boxes rect.best").first).to_be_attached()
    for picture in await page.locator(".sheet img").all():
        await picture.scroll_into_view_if_needed()
        await expect(picture).to_have_js_property("complete", True)
    await page.reload()  # scrolls to the passage again, and draws the ticks and the outline
    await expect(page.locator(".boxes rect.best").first).to_be_attached()
    await expect(page.locator(".sheet img").first).to_have_js_property("complete", True)
    await expect(page.locator("#found")).to_contain_text("passage")
    await expect(page.locator(".words text").first).to_be_attached()


async def take(page: Page) -> Image.Image:
    await page.mouse.move(0, 0)
    taken = await page.screenshot(animations="disabled", caret="hide", scale="device")
    return Image.open(io.BytesIO(taken)).convert("RGB")


def save(picture: Image.Image, name: str) -> None:
    """Write the picture in the best quality that keeps it small, or smaller."""
    path = IMAGES / f"{name}.webp"
    for quality, width in itertools.product(QUALITIES, WIDTHS):
        smaller = picture.copy()
        smaller.thumbnail((width, picture.height), Image.Resampling.LANCZOS)
        smaller.save(path, "WEBP", quality=quality, method=6)
        if path.stat().st_size <= MAX_BYTES:
            break
    sys.stdout.write(f"{path.relative_to(IMAGES.parents[1])}  {path.stat().st_size / 1024:.0f} KB\n")


def put_side_by_side(left: Image.Image, right: Image.Image) -> Image.Image:
    """Return one picture of two phones on grey."""
    wide, high = left.width + right.width + 3 * GAP, left.height + 2 * GAP
    board = Image.new("RGB", (wide, high), BOARD)
    board.paste(left, (GAP, GAP))
    board.paste(right, (left.width + 2 * GAP, GAP))
    return board


async def take_pictures(
    server: ServerProcess, empty: ServerProcess, shared: SharedServer, uids: dict[str, str], fonts: Path
) -> None:
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_browser(), args=[*list_flags(), "--font-render-hinting=none"],
            env={**os.environ, "FONTCONFIG_FILE": str(fonts)},
        )  # fmt: skip
        await take_tour(browser, server.url, shared, uids, TOUR)
        if "--tour" in sys.argv:
            return
        for theme in ("light", "dark"):
            page = await open_page(browser, WIDE, theme)
            await ask(page, server)
            await open_passage(page)
            save(await take(page), f"reader-{theme}")
            await page.set_viewport_size(LARGE)
            await page.goto(f"{server.url}/map?q={quote_plus(QUESTION)}")
            await expect(page.locator(".groups-list mark").first).to_be_visible()
            save(await take(page), f"map-{theme}")
            phone = await open_page(browser, PHONE, theme)
            await ask(phone, server)
            results = await take(phone)
            await open_passage(phone)
            save(put_side_by_side(results, await take(phone)), f"phone-{theme}")
        page = await open_page(browser, LARGE, "light")
        for name, sign in (("library", "tbody tr"), ("agents", ".toolset")):
            await page.goto(f"{server.url}/{name}")
            await expect(page.locator(sign).first).to_be_visible()
            save(await take(page), f"{name}-light")
        page = await open_page(browser, MEDIUM, "light")
        await add_files(page, empty)
        save(await take(page), "activity-light")
        await ask(page, server)
        save(await take(page), "results-light")
        await browser.close()


async def add_files(page: Page, server: ServerProcess) -> None:
    """Add the files of the library, and one that is damaged, by the page itself."""
    await page.goto(f"{server.url}/add")
    files = [*make_samples()]
    chosen = [{"name": each.filename, "mimeType": "application/octet-stream", "buffer": each.content} for each in files]
    chosen.append({"name": "inspection-2024.pdf", "mimeType": "application/pdf", "buffer": files[-1].content[:900]})
    await page.locator("input[type=file]").first.set_input_files(chosen)  # type: ignore[arg-type]
    await page.get_by_role("link", name="Activity").first.click()
    await expect(page.locator(".row.bad .hint").first).to_be_visible()
    await expect(page.locator("progress")).to_have_count(0)
    await expect(page.locator(".chip", has_text="Failed")).to_contain_text("1")


def main() -> None:
    if find_browser() is None:
        sys.exit(NO_BROWSER)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        full, empty, fonts = Path(folder, "full"), Path(folder, "empty"), Path(folder, "fonts.conf")
        full.mkdir()
        empty.mkdir()
        write_font_rules(fonts)
        with (
            run_server_process_on_port(0, full, SETTINGS) as server,
            run_server_process_on_port(0, empty, SETTINGS) as other,
            run_shared_server(Path(folder, "shared")) as shared,
            serve_site() as site,
        ):
            fill(server)
            asyncio.run(take_pictures(server, other, shared, use(server, site), fonts))


if __name__ == "__main__":
    main()
