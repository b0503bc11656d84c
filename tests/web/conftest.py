"""A real server with the real model, and one browser for all tests of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.support.browser import PageReports, list_flags, require_browser
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.web.library import OPERATOR_KEY, add_library

WITH_MODEL = {"KNOWLEDGE_EMBEDDING": "default", "KNOWLEDGE_RERANKER": "none"}
WAIT_MS = 30_000
"""Upper limit of every wait; a busy machine is slow."""
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the page in the event loop of the browser."""
    for item in items:
        if item.path.is_relative_to(HERE) and isinstance(item, pytest.Function) and item.get_closest_marker("asyncio"):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = require_browser()
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=list_flags())
        yield opened
        await opened.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a few documents, for tests that only read."""
    require_browser()
    with run_server_process_on_port(0, tmp_path_factory.mktemp("page"), WITH_MODEL) as running:
        add_library(running)
        yield running


@pytest.fixture
def empty_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of its own, for tests that write."""
    require_browser()
    with run_server_process_on_port(0, tmp_path, WITH_MODEL) as running:
        yield running


@pytest.fixture(scope="module")
def locked_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks for a login, and where everybody may register."""
    require_browser()
    settings = {**WITH_MODEL, "KNOWLEDGE_API_KEY": OPERATOR_KEY, "KNOWLEDGE_AUTH_RATE_LIMIT": "off"}
    with run_server_process_on_port(0, tmp_path_factory.mktemp("locked"), settings) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    made.set_default_timeout(WAIT_MS)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext, reports: PageReports) -> Page:
    opened = await context.new_page()
    reports.watch(opened)
    return opened


@pytest.fixture
def reports(request: pytest.FixtureRequest) -> Iterator[PageReports]:
    """What the page reports; an error that the test does not expect fails it."""
    named = next((name for name in request.fixturenames if name.endswith("_server")), "server")
    running: ServerProcess = request.getfixturevalue(named)
    collected = PageReports(running.url)
    yield collected
    assert collected.list_unexpected() == []
