"""Files on their way in: refused with a reason, cancelled, and none lost to limits or a killed server."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Locator, Page, Route, expect

from tests.data.extract import documents
from tests.support.browser import PageReports, require_browser
from tests.support.pdfs import place_lines, write_sentences
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.web.conftest import WITH_MODEL
from tests.web.library import BREAD, GARDEN, RULES_LINES
from tests.web.steps import drop_files, register

MEGABYTE = 1 << 20
LONG_WAIT_MS = 600_000
"""For tests of many files on a busy machine."""


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that takes files of one megabyte and holds one document."""
    require_browser()
    settings = {**WITH_MODEL, "KNOWLEDGE_MAX_FILE_MB": "1"}
    with run_server_process_on_port(0, tmp_path_factory.mktemp("small"), settings) as running:
        running.wait_for_outcome(running.add_file("Bread.md", BREAD.encode()))
        yield running


def find_row(page: Page, name: str) -> Locator:
    return page.locator(".row").filter(has=page.locator(".name", has_text=name))


def make_locked_pdf() -> bytes:
    pdf = documents.Pdf()
    pdf.text(*place_lines(60, 100, RULES_LINES))
    return pdf.locked("secret")


def write_prose(seed: int, size: int = MEGABYTE) -> bytes:
    """Return sentences; a megabyte of them takes long to embed."""
    block = "\n\n".join(" ".join(write_sentences(seed + number, 8)) for number in range(size // 300)).encode()
    return block[:size]


def make_heavy_pdf() -> bytes:
    """Return a PDF of one page that is long on its way, because of two megabytes that no page uses."""
    pdf = documents.Pdf()
    pdf.text(*place_lines(60, 100, RULES_LINES))
    pdf.stream(random.Random(1).randbytes(2 * MEGABYTE))
    return pdf.to_bytes()


async def test_files_that_cannot_be_read_say_why_and_what_to_do(
    page: Page, small_server: ServerProcess, reports: PageReports
) -> None:
    reports.expected.append("409")
    await page.goto(f"{small_server.url}/activity")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/api/v1/jobs") else None)
    await drop_files(
        page,
        {
            "Damaged.pdf": b"%PDF-1.7\nthis is not a PDF",
            "Protected.pdf": make_locked_pdf(),
            "Bread again.md": BREAD.encode(),
            "Huge.txt": b"x" * (MEGABYTE + 1),
            "Program.exe": b"MZ",
        },
    )
    await expect(find_row(page, "Damaged.pdf").locator(".text")).to_contain_text("cannot be opened as a PDF")
    await expect(find_row(page, "Damaged.pdf").locator(".hint")).to_contain_text("save a new copy")
    await expect(find_row(page, "Protected.pdf").locator(".text")).to_contain_text("protected with a password")
    await expect(find_row(page, "Protected.pdf").locator(".hint")).to_contain_text("without the password")
    twin = find_row(page, "Bread again.md")
    await expect(twin.locator(".text")).to_have_text("Already here as “Sourdough bread”")
    await expect(find_row(page, "Huge.txt").locator(".text")).to_contain_text("larger than the")
    await expect(find_row(page, "Huge.txt").locator(".hint")).to_contain_text("KNOWLEDGE_MAX_FILE_MB")
    await expect(find_row(page, "Program.exe").locator(".text")).to_have_text("Files ending in .exe cannot be read")
    assert len(sent) == 3, "a file that is too large or of no known format is not sent"
    await twin.get_by_role("link", name="Open").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Sourdough bread")


async def test_a_file_that_can_never_be_read_is_not_offered_for_another_try(
    page: Page, small_server: ServerProcess
) -> None:
    small_server.wait_for_outcome(small_server.add_file("Torn.pdf", b"%PDF-1.7\ntorn"))
    await page.goto(f"{small_server.url}/activity?show=failed")
    row = find_row(page, "Torn.pdf")
    await expect(row.locator(".hint")).to_contain_text("add that copy")
    await expect(row.get_by_role("button", name="Try again")).to_have_count(0)


async def test_a_file_is_cancelled_while_it_is_sent_and_while_it_is_read(
    page: Page, small_server: ServerProcess
) -> None:
    held: list[Route] = []

    async def hold(route: Route) -> None:
        if route.request.method == "POST" and not held:
            held.append(route)
        else:
            await route.continue_()

    await page.route("**/api/v1/jobs", hold)
    await page.goto(f"{small_server.url}/activity")
    await drop_files(page, {"Held.txt": GARDEN.encode(), "Long.txt": write_prose(50)})
    unsent, running = find_row(page, "Held.txt"), find_row(page, "Long.txt")
    await unsent.get_by_role("button", name="Cancel").click()
    await expect(unsent.locator(".text")).to_have_text("Cancelled")
    await expect(page.get_by_role("link", name="Activity")).to_contain_text("1")
    await running.get_by_role("button", name="Cancel").click()
    await expect(running.locator(".text")).to_have_text("Cancelled")
    await expect(running.get_by_role("button")).to_have_count(0)
    jobs = {job["filename"]: job["uid"] for job in small_server.http.get("/jobs").json()["jobs"]}
    assert "Held.txt" not in jobs and small_server.wait_for_job(jobs["Long.txt"])["status"] == "cancelled"
    listed = small_server.http.get("/documents").json()["documents"]
    assert [document["filename"] for document in listed] == ["Bread.md"]


@pytest.mark.long
async def test_a_folder_of_200_files_of_an_account_arrives_whole(
    page: Page, locked_server: ServerProcess, reports: PageReports, tmp_path: Path
) -> None:
    reports.expected.append("429")
    folder = tmp_path / "folder"
    for number in range(200):
        path = folder / f"part {number % 7}" / f"Leaf {number:03}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Leaf {number}\n\n{' '.join(write_sentences(100 + number, 4))}\n")
    (folder / ".hidden.md").write_text("not taken")
    await register(page, locked_server, "gardener")
    await page.goto(f"{locked_server.url}/add")
    await page.locator("input[webkitdirectory]").set_input_files(folder)
    await page.get_by_role("link", name="Activity").click()
    await expect(page.locator(".row.good")).to_have_count(200, timeout=LONG_WAIT_MS)
    await expect(page.locator(".row.bad, .row.off")).to_have_count(0)
    listed = await page.context.request.get(f"{locked_server.url}/api/v1/documents?per_page=1")
    assert (await listed.json())["total"] == 200


@pytest.mark.long
async def test_uploads_and_the_list_recover_from_a_killed_server(context: BrowserContext, tmp_path: Path) -> None:
    """The server is killed while one file is on the wire, one is being read and others wait."""
    files = {f"File {number}.txt": write_prose(200 + number, 20_000) for number in range(4)}
    files["Large.pdf"] = make_heavy_pdf()
    with run_server_process_on_port(0, tmp_path, WITH_MODEL) as first:
        page, port = await context.new_page(), first.port
        reports = PageReports(first.url, expected=["ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "503"])
        reports.watch(page)
        await page.goto(f"{first.url}/activity")
        wire = await context.new_cdp_session(page)
        slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 300_000}
        await wire.send("Network.enable")
        await wire.send("Network.emulateNetworkConditions", slow)
        await drop_files(page, files)
        await expect(find_row(page, "Large.pdf").locator(".text")).to_have_text(re.compile(r"Sending, [1-9]\d? %"))
        first.process.kill()
        first.process.wait()
        await expect(page.locator("p.gone")).to_be_visible()
        await expect(page.locator(".live")).to_contain_text("Connecting again")
        await expect(page.locator(".row")).to_have_count(len(files))
    with run_server_process_on_port(port, tmp_path, WITH_MODEL) as second:
        await wire.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
        await expect(page.locator(".live")).to_contain_text("Live", timeout=LONG_WAIT_MS)
        await expect(page.locator(".row.good")).to_have_count(len(files), timeout=LONG_WAIT_MS)
        await expect(page.locator("p.gone")).to_have_count(0)
        listed = second.http.get("/documents").json()["documents"]
        assert sorted(document["filename"] for document in listed) == sorted(files)
        assert reports.list_unexpected() == []
