"""Steps that several journeys share: ask, drop files, log in, and look where the boxes are."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Locator, Page, Request, Route, expect

from tests.support.pdfs import A4_HEIGHT, LEADING
from tests.support.server_process import ServerProcess
from tests.web.library import LAMP_LINES

QUESTION = "how is the wick of the lamp trimmed"
PASSWORD = "a long enough password"
FIRST_LINE = 120
"""Points from the top of the page to the first line of the handbook."""


async def ask(page: Page, server: ServerProcess, question: str = QUESTION) -> Locator:
    """Type a question on the home page and return the first passage."""
    await page.goto(f"{server.url}/")
    async with page.expect_response(lambda response: is_search_for(response.request, question)) as waiting:
        await page.get_by_role("searchbox").press_sequentially(question)
    best = (await (await waiting.value).json())["results"][0]
    hit = page.locator(".hit").first
    await expect(hit.locator("a.go")).to_have_attribute("data-hit", f"{best['document_uid']}-{best['chunk_index']}")
    await wait_for_answer(page)
    return hit


def is_search(request: Request) -> bool:
    return request.method == "POST" and request.url.endswith("/api/v1/search")


def is_search_for(request: Request, question: str) -> bool:
    return is_search(request) and read_body(request)["query"] == question.strip()


def read_body(request: Request) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request.post_data or "{}")
    return body


async def wait_for_answer(page: Page) -> None:
    """Wait until the line above the passages says what was found."""
    await expect(page.locator("#found")).to_contain_text(re.compile("passage|Nothing"))


async def drop_files(page: Page, files: Mapping[str, bytes]) -> None:
    """Drop files onto the page."""
    await page.locator("body").evaluate(
        """(body, files) => {
          const transfer = new DataTransfer();
          const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
          for (const [name, content] of files) transfer.items.add(new File([decode(content)], name));
          const about = { bubbles: true, cancelable: true, dataTransfer: transfer };
          for (const kind of ["dragenter", "dragover", "drop"]) body.dispatchEvent(new DragEvent(kind, about));
        }""",
        [[name, b64encode(content).decode()] for name, content in files.items()],
    )


async def register(page: Page, server: ServerProcess, username: str) -> None:
    """Register an account on the page of a server that asks for a login."""
    await page.goto(f"{server.url}/")
    await page.get_by_role("button", name="Register a new account").click()
    await fill_login(page, username, PASSWORD)
    await page.get_by_role("button", name="Register", exact=True).click()
    await expect(page.get_by_role("searchbox")).to_be_visible()


async def fill_login(page: Page, username: str, password: str) -> None:
    await page.get_by_label("User name").fill(username)
    await page.get_by_label("Password").fill(password)


async def serve_changed(page: Page, module: str, old: str, new: str) -> None:
    """Serve one module of the page with a change, as another build would."""

    async def answer(route: Route) -> None:
        fetched = await route.fetch()
        text = await fetched.text()
        assert old in text
        headers = {name: value for name, value in fetched.headers.items() if name not in ("content-encoding", "etag")}
        await route.fulfill(status=200, headers=headers, body=text.replace(old, new))

    await page.route(f"**/static/*/{module}", answer)


async def hold_answers(page: Page, address: str) -> asyncio.Event:
    """Hold the requests to an address back until the event is set, as a slow server does."""
    gate = asyncio.Event()

    async def answer(route: Route) -> None:
        await gate.wait()
        await route.continue_()

    await page.route(address, answer)
    return gate


async def check_boxes_on_lines(page: Page) -> None:
    """Check that the passage of the handbook has one box on each of its lines, and none elsewhere."""
    boxes = page.locator(".sheet[data-page='1'] .boxes rect.best")
    await expect(boxes.first).to_be_attached()
    places = await boxes.evaluate_all(
        "(boxes) => boxes.map((box) => [Number(box.getAttribute('y')), Number(box.getAttribute('height'))])"
    )
    assert len(places) == len(LAMP_LINES), places
    for row, (top, height) in enumerate(sorted(places)):
        baseline = (FIRST_LINE + LEADING * row) / A4_HEIGHT
        assert top < baseline - 0.004 < top + height, f"line {row + 1} at {baseline:.3f} has its box at {top:.3f}"
        assert 0.008 < height < LEADING / A4_HEIGHT * 1.3
