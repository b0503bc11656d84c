"""Journey 27: the map of passages. Search lights up its answers, a click opens the passage, and a list has the same."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.async_api import Page, expect

from tests.support.axe import list_violations, read_axe
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.web.conftest import WAIT_MS, WITH_MODEL
from tests.web.library import OPERATOR_KEY
from tests.web.steps import register

MARGIN = 28
"""Pixels around the points, as in parts/dots.js."""
SUBJECTS = {
    "Lighthouse": "The keeper trims the wick of the lamp in the lighthouse at dusk, and polishes the Fresnel lens.",
    "Tomatoes": "Tomato seedlings are planted in the greenhouse after the last frost, and watered every morning.",
    "Railway": "The steam locomotive waits at the red signal before the tunnel, while the fireman shovels coal.",
}
GERMAN = "Der Leuchtturmwärter zündet jeden Abend die Lampe an und schreibt das Wetter in sein Tagebuch auf der Insel."
MARKED_PIXELS = """(canvas) => {
  const { backgroundColor } = getComputedStyle(document.querySelector(".palette .mark-edge"));
  const wanted = backgroundColor.match(/\\d+/g).map(Number);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  const isMarked = (at) => wanted.every((value, part) => Math.abs(data[at + part] - value) < 25);
  for (let at = 0; at < data.length; at += 4) found += isMarked(at);
  return found;
}"""


def write_subject(name: str, passages: int = 12) -> bytes:
    """Return a document with one passage for each heading."""
    more = "This is what the book about it says on page"
    return "\n".join(f"# {name} {at}\n\n{SUBJECTS[name]} {more} {at}.\n" for at in range(passages)).encode()


@pytest.fixture(scope="module")
def map_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with 36 passages about three subjects, in two collections, and one that the model does not read."""
    with run_server_process_on_port(0, tmp_path_factory.mktemp("map"), WITH_MODEL) as running:
        running.http.post("/collections", json={"name": "rails", "title": "Rails <b>"}).raise_for_status()
        for name in SUBJECTS:
            about = {"collection": "rails"} if name == "Railway" else {}
            answer = running.http.post("/jobs", files={"file": (f"{name}.md", write_subject(name))}, data=about)
            assert running.wait_for_outcome(answer)["status"] == "completed"
        assert running.wait_for_outcome(running.add_file("Tagebuch.txt", GERMAN.encode()))["status"] == "completed"
        yield running


async def open_map(page: Page, server: ServerProcess, query: str = "") -> dict[str, Any]:
    """Open the page, wait until the map is drawn, and return the map as the page got it."""
    await page.goto(f"{server.url}/map{query}")
    await expect(page.locator(".canvas canvas")).to_be_visible()
    found: dict[str, Any] = server.http.get("/map").json()
    return found


async def place_of(page: Page, point: list[float]) -> tuple[float, float]:
    """Return the pixel of a point."""
    box = await page.locator(".canvas canvas").bounding_box()
    assert box is not None
    return (
        box["x"] + box["width"] / 2 + (point[2] - 0.5) * (box["width"] - 2 * MARGIN),
        box["y"] + box["height"] / 2 + (point[3] - 0.5) * (box["height"] - 2 * MARGIN),
    )


async def test_a_search_lights_up_its_answers_and_a_click_opens_the_passage(
    page: Page, map_server: ServerProcess
) -> None:
    found = await open_map(page, map_server)
    await expect(page.locator(".mapping")).to_contain_text(f"{found['passages']} passages")
    await expect(page.locator(".gaps")).to_contain_text("in German")
    await expect(page.locator(".legend")).to_contain_text("Rails <b>")
    canvas = page.locator(".canvas canvas")
    assert await canvas.evaluate(MARKED_PIXELS) == 0
    await page.get_by_role("searchbox").fill("how is the wick of the lamp trimmed")
    await expect(page.locator(".lit")).to_contain_text(re.compile(r"\d+ answers? (is|are) lit"))
    await expect(page.locator(".answer").first).to_contain_text("wick")
    async with asyncio.timeout(WAIT_MS / 1000):
        while await canvas.evaluate(MARKED_PIXELS) < 20:
            await page.evaluate("() => new Promise(requestAnimationFrame)")
    assert "q=how" in page.url
    point = found["points"][0]
    document = found["documents"][point[0]]
    x, y = await place_of(page, point)
    await page.mouse.move(x, y)
    await expect(page.locator(".tip p")).to_be_visible()
    await page.mouse.click(x, y)
    await page.wait_for_url("**/d/*")
    await expect(page.locator(".passage.here")).to_be_visible()
    opened = urlparse(page.url)
    near = {
        (found["documents"][other[0]]["uid"], str(other[1]))
        for other in found["points"]
        if abs(other[2] - point[2]) < 0.05 and abs(other[3] - point[3]) < 0.05
    }
    assert (opened.path.rpartition("/")[2], parse_qs(opened.query)["at"][0]) in near, (document, page.url)
    await page.go_back()
    await expect(page.locator(".lit")).to_be_visible()


async def test_the_list_has_the_same_groups_and_the_keyboard_reaches_them(
    page: Page, map_server: ServerProcess
) -> None:
    found = await open_map(page, map_server)
    groups = page.locator("[data-group]")
    await expect(groups).to_have_count(sum(cluster["count"] > 0 for cluster in found["clusters"]))
    await page.locator(".canvas").focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.locator("[data-group='0']")).to_have_attribute("aria-expanded", "true")
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"):
        await page.keyboard.press(key)
    await page.keyboard.press("Enter")
    chosen = page.locator("[data-group][aria-expanded='true']")
    await expect(chosen).to_be_focused()
    await page.keyboard.press("Tab")
    link = page.locator(".groups-list ul a").first
    await expect(link).to_be_focused()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/d/*")
    await expect(page.locator(".passage.here")).to_be_visible()


async def test_a_small_library_is_told_where_the_map_begins(page: Page, map_server: ServerProcess) -> None:
    await page.goto(f"{map_server.url}/map?collection=rails")
    await expect(page.locator(".none")).to_contain_text("begins at thirty passages")


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_axe_finds_nothing_on_a_map_with_answers(
    page: Page, map_server: ServerProcess, colours: str, width: int
) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    await page.emulate_media(color_scheme="dark" if colours == "dark" else "light", reduced_motion="reduce")
    await open_map(page, map_server, "?q=locomotive")
    await expect(page.locator(".answer").first).to_be_visible()
    await page.locator("[data-group='0']").click()
    await expect(page.locator(".groups-list ul a").first).to_be_visible()
    assert await list_violations(page, read_axe()) == []


@pytest.mark.long
async def test_an_account_sees_nothing_of_another_one_on_its_map(page: Page, locked_server: ServerProcess) -> None:
    headers = {"X-API-Key": OPERATOR_KEY}
    for name in SUBJECTS:
        answer = locked_server.http.post("/jobs", files={"file": (f"{name}.md", write_subject(name))}, headers=headers)
        assert answer.status_code == 202
    seen: list[str] = []
    page.on("response", lambda response: seen.append(response.url) if "/map" in response.url else None)
    await register(page, locked_server, "mapreader")
    await page.goto(f"{locked_server.url}/map")
    await expect(page.locator(".none")).to_contain_text("There are 0")
    text = await page.locator("body").inner_text()
    assert seen and not any(name in text for name in SUBJECTS)
