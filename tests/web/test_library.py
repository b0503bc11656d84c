"""The library and the editor: filter, choose, move, tag and delete; write, keep a draft, and notice other changes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.support.browser import PageReports, require_browser
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.web.conftest import WITH_MODEL

KETTLES, PER_PAGE = 60, 50
LARGE_WAIT_MS = 300_000
"""For a change of ten thousand documents on a busy machine."""


@pytest.fixture(scope="module")
def shelf_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with more documents than a page of the library shows."""
    require_browser()
    settings = {**WITH_MODEL, "KNOWLEDGE_EMBEDDING": "none"}
    with run_server_process_on_port(0, tmp_path_factory.mktemp("shelf"), settings) as running:
        add_kettles(running, KETTLES)
        add_note(running, "Ships sail in the morning.", title="Ships", tags=["sea"])
        yield running


def add_kettles(server: ServerProcess, count: int) -> None:
    jobs = [
        server.http.post("/jobs", json={"note": f"Kettle {number} boils.", "title": f"Kettle {number:04}"}).json()
        for number in range(count)
    ]
    for job in jobs:
        server.wait_for_job(job["uid"])


def add_note(server: ServerProcess, text: str, **fields: Any) -> str:
    job = server.http.post("/jobs", json={"note": text, **fields}).json()
    return str(server.wait_for_job(job["uid"])["document_uid"])


async def test_documents_are_filtered_chosen_moved_and_deleted_many_at_once(
    page: Page, shelf_server: ServerProcess, reports: PageReports
) -> None:
    reports.expected.append("422")  # how the page asks what would be deleted
    await page.goto(f"{shelf_server.url}/library")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(PER_PAGE)
    await page.get_by_role("link", name="Title", exact=True).click()
    await expect(rows.first).to_contain_text("Kettle 0000")
    await page.get_by_role("link", name="Next").click()
    await expect(rows).to_have_count(KETTLES + 1 - PER_PAGE)
    await page.get_by_role("searchbox").fill("kettle")
    await expect(page.get_by_role("status").filter(has_text=f"{KETTLES} documents")).to_be_visible()
    await expect(rows).to_have_count(PER_PAGE)
    await page.get_by_role("checkbox", name="Choose all on this page").check()
    await page.get_by_role("button", name=f"Choose all {KETTLES}").click()
    await page.get_by_role("button", name="Move").click()
    await page.get_by_label("To the collection").fill("kitchen")
    await page.locator("form button", has_text="Move").click()
    await expect(page.get_by_text(f"{KETTLES} documents were changed.")).to_be_visible()
    await page.locator(".side").get_by_role("link", name=re.compile("kitchen")).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("kitchen")
    await page.get_by_role("checkbox", name="Choose Kettle 0003").check()
    await page.get_by_role("button", name="Tag").click()
    await page.get_by_label("Tags", exact=True).fill("copper, hot")
    await page.get_by_role("button", name="Add tags").click()
    await expect(page.locator(".side").get_by_role("link", name=re.compile("copper"))).to_be_visible()
    await page.get_by_role("checkbox", name="Choose all on this page").check()
    await page.get_by_role("button", name=f"Choose all {KETTLES}").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text(f"This deletes {KETTLES} documents with {KETTLES} passages")).to_be_visible()
    confirm = page.get_by_role("button", name=f"Delete {KETTLES} documents")
    await expect(confirm).to_be_disabled()
    await page.get_by_label(f"Type {KETTLES} to confirm").fill(str(KETTLES))
    await confirm.click()
    await expect(page.get_by_text(f"{KETTLES} documents were deleted.")).to_be_visible()
    left = shelf_server.http.get("/documents").json()["documents"]
    assert [document["title"] for document in left] == ["Ships"]
    await page.get_by_role("link", name="Show all documents").click()
    await page.get_by_role("button", name="Pictures").click()
    await expect(page.locator(".pictures li")).to_have_count(1)


async def test_a_note_is_edited_its_draft_survives_a_reload_and_the_new_text_is_found(
    page: Page, shelf_server: ServerProcess
) -> None:
    uid = add_note(shelf_server, "The ferry leaves at nine.", title="Ferry", tags=["sea"])
    await page.goto(f"{shelf_server.url}/d/{uid}")
    await page.get_by_role("link", name="Edit", exact=True).click()
    await expect(page.get_by_label("Text")).to_have_value("The ferry leaves at nine.")
    await page.get_by_label("Text").fill("The ferry leaves at **seven**.")
    await page.get_by_label("Tags").fill("sea, early")
    await page.reload()
    await expect(page.get_by_label("Text")).to_have_value("The ferry leaves at **seven**.")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator(".preview strong")).to_have_text("seven")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    found = shelf_server.http.post("/search", json={"query": "ferry"}).json()["results"]
    assert ["seven" in hit["text"] for hit in found if hit["document_uid"] == uid] == [True]
    assert set(shelf_server.http.get(f"/documents/{uid}").json()["tags"]) == {"collection:documents", "sea", "early"}


async def test_a_change_by_somebody_else_is_shown_and_neither_text_is_lost(
    page: Page, shelf_server: ServerProcess, reports: PageReports
) -> None:
    reports.expected.append("412")
    uid = add_note(shelf_server, "Lamps are trimmed at dusk.", title="Lamps")
    await page.goto(f"{shelf_server.url}/d/{uid}/edit")
    await page.get_by_label("Text").fill("Lamps are trimmed by me.")
    changed = shelf_server.http.patch(f"/notes/{uid}", json={"text": "Lamps are trimmed by another."})
    assert changed.status_code == 200, changed.text
    await page.get_by_role("button", name="Save", exact=True).click()
    conflict = page.locator(".conflict")
    await expect(conflict.locator("pre")).to_have_text("Lamps are trimmed by another.")
    await expect(page.get_by_label("Text", exact=True)).to_have_value("Lamps are trimmed by me.")
    await conflict.get_by_role("button", name="Keep both").click()
    await expect(page.get_by_label("Text", exact=True)).to_have_value("Lamps are trimmed by another.")
    await expect(conflict).to_have_count(0)
    await page.get_by_label("Text", exact=True).fill("Lamps are trimmed twice.")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    texts = [shelf_server.http.get(f"/documents/{each['uid']}").json()["chunks"][0]["text"]
             for each in shelf_server.http.get("/documents", params={"q": "Lamps"}).json()["documents"]]  # fmt: skip
    assert sorted(texts) == ["Lamps are trimmed by me.", "Lamps are trimmed twice."]


async def test_the_reader_leads_to_similar_documents_and_deletes(page: Page, shelf_server: ServerProcess) -> None:
    uid = add_note(shelf_server, "Anchors hold.", title="Harbour of anchors")
    add_note(shelf_server, "A harbour with many anchors.", title="Old quay")
    await page.goto(f"{shelf_server.url}/d/{uid}")
    await page.get_by_role("button", name="Similar").click()
    await expect(page.locator(".drawer").get_by_role("link", name=re.compile("Old quay"))).to_be_visible()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text("This deletes the document with 1 passage")).to_be_visible()
    await page.get_by_role("button", name="Delete it").click()
    await expect(page).to_have_url(f"{shelf_server.url}/library")
    assert shelf_server.http.get(f"/documents/{uid}").status_code == 404


@pytest.mark.long
async def test_ten_thousand_documents_are_shown_by_fifty_and_moved_and_deleted_at_once(
    page: Page, empty_server: ServerProcess, reports: PageReports
) -> None:
    reports.expected.append("422")  # how the page asks what would be deleted
    count = 10_000
    await asyncio.to_thread(add_kettles, empty_server, count)
    await page.goto(f"{empty_server.url}/library")
    rows, choose = page.locator("tbody tr"), page.get_by_role("button", name=f"Choose all {count:,}")
    await expect(page.get_by_role("status").filter(has_text=f"{count:,} documents")).to_be_visible()
    await expect(rows).to_have_count(PER_PAGE)
    await page.goto(f"{empty_server.url}/library?page={count // PER_PAGE}")
    await expect(rows).to_have_count(PER_PAGE)
    await page.get_by_role("checkbox", name="Choose all on this page").check()
    await choose.click()
    await page.get_by_role("button", name="Move").click()
    await page.get_by_label("To the collection").fill("kitchen")
    await page.locator("form button", has_text="Move").click()
    await expect(page.get_by_text(f"{count:,} documents were changed.")).to_be_visible(timeout=LARGE_WAIT_MS)
    await page.get_by_role("checkbox", name="Choose all on this page").check()
    await choose.click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_label(f"Type {count:,} to confirm").fill(str(count))
    await page.get_by_role("button", name=f"Delete {count:,} documents").click()
    await expect(page.get_by_text(f"{count:,} documents were deleted.")).to_be_visible(timeout=LARGE_WAIT_MS)
    assert empty_server.http.get("/documents").json()["total"] == 0
