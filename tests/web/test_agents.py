"""Journeys of agents and insight: a key shown once, an agent that arrives, a tool that is tried, what was not found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.async_api import Page, expect

from tests.support.browser import PageReports, require_browser
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.web.conftest import WITH_MODEL
from tests.web.library import OPERATOR_KEY, add_library
from tests.web.steps import QUESTION, ask, register

KEY = re.compile(r"kn_[0-9a-f]{12}_[\w-]+")
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(scope="module")
def agent_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks for a login, for REST and for MCP, where everybody may register."""
    require_browser()
    keys = {"KNOWLEDGE_API_KEY": OPERATOR_KEY, "KB_MCP_API_KEY": "a-key-for-mcp", "KNOWLEDGE_AUTH_RATE_LIMIT": "off"}
    with run_server_process_on_port(0, tmp_path_factory.mktemp("agents"), {**WITH_MODEL, **keys}) as running:
        yield running


async def test_a_key_is_shown_once_and_the_agent_that_connects_with_it_is_seen_live(
    page: Page, agent_server: ServerProcess, reports: PageReports
) -> None:
    reports.expected.append("401")
    await register(page, agent_server, "ada")
    await page.get_by_role("link", name="Agents").click()
    lines = page.locator(".code pre").first
    await expect(lines).to_contain_text("claude mcp add --transport http knowledge")
    await expect(lines).to_contain_text("YOUR-KEY")
    await expect(page.locator(".arrival")).to_contain_text("Waiting for Claude Code")
    refused = httpx.post(f"{agent_server.url}/mcp", json=CALL, headers={"User-Agent": "claude-code/2"})
    assert refused.status_code == 401
    await page.get_by_role("button", name="Make a key for it").click()
    await expect(lines).to_contain_text(KEY)
    found = KEY.search(str(await lines.text_content()))
    assert found is not None
    await expect(page.get_by_text("It is shown only now")).to_be_visible()
    await page.get_by_role("button", name="Cursor").click()
    await expect(lines).to_contain_text(f'"Authorization": "Bearer {found[0]}"')
    headers = {"Authorization": f"Bearer {found[0]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{agent_server.url}/mcp", http_client=http)) as client,
    ):
        await client.call_tool("knowledge-status", {})
    await expect(page.locator(".arrival.here")).to_contain_text(
        re.compile(r"Connected, \d+ s ago · 7 tools · last called knowledge-status")
    )
    seen = page.locator(".row", has_text="key “Claude Code”")
    await expect(seen).to_contain_text("1 call")
    await expect(page.locator(".row.bad")).to_contain_text("came without a key")
    await page.reload()
    await expect(page.locator(".arrival")).to_be_visible()
    assert found[0] not in await page.content()
    await expect(page.locator(".code pre").first).to_contain_text("YOUR-KEY")


async def test_a_tool_is_tried_and_its_json_is_shown(page: Page, server: ServerProcess) -> None:
    await page.goto(f"{server.url}/agents")
    await page.locator("summary", has_text="knowledge").first.click()
    await page.get_by_role("button", name="Try knowledge-search").click()
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator(".outcome")).to_have_count(0)
    await page.get_by_label("query (required)").fill("wick of the lamp")
    await page.get_by_label("top_k").fill("1")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator(".outcome pre")).to_contain_text("The keeper trims the wick")
    await page.get_by_role("button", name="Try knowledge-clear").click()
    await expect(page.get_by_role("button", name="Call")).to_be_disabled()


@pytest.fixture
def logging_server(tmp_path: Path) -> Iterator[ServerProcess]:
    require_browser()
    with run_server_process_on_port(0, tmp_path, {**WITH_MODEL, "KNOWLEDGE_QUERY_LOG": "1"}) as running:
        add_library(running)
        yield running


async def test_what_was_asked_and_not_found_is_answered_and_a_passage_is_marked(
    page: Page, logging_server: ServerProcess
) -> None:
    asked = {"query": "who winds the tower clock on Sundays"}
    best = logging_server.http.post("/search", json=asked).json()["results"][0]["score"]
    assert best < 0.5
    hit = await ask(page, logging_server)
    await hit.locator("button.score").click()
    await hit.get_by_role("button", name="Yes").click()
    await expect(hit.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("link", name="Agents").click()
    await page.get_by_role("link", name="What was asked").click()
    row = page.locator(".row", has_text=asked["query"])
    await expect(row).to_contain_text("asked once")
    await expect(page.locator(".row.good", has_text=QUESTION)).to_contain_text("Right:")
    await expect(page.locator(".plots figure").first).to_contain_text(re.compile(r"Documents\d"))
    await page.get_by_text("The numbers as a table").click()
    await expect(page.locator("table tbody tr")).to_have_count(24)
    await page.get_by_role("button", name="7 days").click()
    await expect(page.locator("table tbody tr")).to_have_count(28)
    await row.get_by_role("link", name="Add an answer").click()
    await expect(page.get_by_label("Title")).to_have_value(asked["query"])
    await page.get_by_label("Text").fill("The sexton winds the tower clock on Sundays, after the second bell.")
    await page.get_by_role("button", name="Add the note", exact=True).click()
    await expect(page.get_by_role("status").first).to_be_visible()
    await page.goto(f"{logging_server.url}/insight")
    await page.get_by_role("button", name="Delete my log").click()
    await page.get_by_role("button", name="Delete all questions of mine").click()
    await expect(page.get_by_text("Everything that was asked has been found.")).to_be_visible()
