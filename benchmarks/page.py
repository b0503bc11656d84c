"""Measures the web page in a real Chromium: sizes, first paint, typing, opening a passage, and what it does at rest.

    PYTHONPATH=. python benchmarks/page.py [--data FOLDER] [--chunks 100000] [--questions 12] [--json FILE]

A real server with the default model has generated chunks (large_folder.py) and a few generated PDFs. FOLDER is kept
for the next run. KNOWLEDGE_TEST_BROWSER names the Chromium; without one only the sizes are printed. Times are wall
clock, so each has the load average beside it, and nothing fails when one is above its goal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from knowledge.surfaces.web.assets import Assets
from large_folder import fill_folder
from made_documents import write_pdf
from results import Result, add_json_option, write_results
from search_data import Recipe
from server import BenchmarkServer, run_server
from tests.support.browser import NO_BROWSER, find_browser, list_flags

LETTERS_PER_QUESTION = 12
PDF_COUNT, PDF_PAGES = 8, 12
PAINT_ROUNDS = 7
REST_SECONDS = 10.0
QUICK_MS = 50
WAIT_MS = 120_000
KILOBYTE = 1024
TYPE_LETTER = """async (letter) => {
  const field = document.getElementById("q"), frame = () => new Promise(requestAnimationFrame);
  const begin = performance.now();
  field.value += letter;
  field.dispatchEvent(new InputEvent("input", { bubbles: true, data: letter }));
  const asked = field.value.trim();
  while (!(window.answered?.query === asked && window.answered.at >= begin)) await frame();
  await frame();
  return performance.now() - begin;
}"""
"""From the event of a key until the frame after the one that draws its answer."""
NOTE_ANSWERS = """(() => {
  const send = window.fetch;
  window.fetch = async (address, options) => {
    const response = await send(address, options);
    if (String(address).endsWith("/search") && response.ok) {
      const { query } = JSON.parse(options.body);
      response.clone().text().then(() => { window.answered = { query, at: performance.now() }; });
    }
    return response;
  };
})()"""
OPEN_FIRST_HIT = """async (ready) => {
  const frame = () => new Promise(requestAnimationFrame), begin = performance.now();
  const done = {
    text: () => document.querySelector(".passage.here"),
    page: () => {
      const image = document.querySelector(".boxes rect.best")?.closest(".sheet").querySelector("img");
      return image?.complete && image.naturalWidth > 0;
    },
  }[ready];
  document.querySelector(".hit a.go").click();
  while (!done()) await frame();
  return performance.now() - begin;
}"""
PICTURE_MS = """() => performance.getEntriesByType("resource").filter(({ name }) => /\\/pages\\/\\d+\\?/.test(name))
  .map(({ startTime, responseEnd }) => responseEnd - startTime)[0] ?? null"""
HIDE = """() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@dataclass
class Traffic:
    """The requests of a browser: all that began, and those that are still open."""

    started: list[str] = field(default_factory=list)
    open: set[Request] = field(default_factory=set)

    def watch(self, context: BrowserContext) -> None:
        context.on("request", self._begin)
        context.on("requestfinished", self._end)
        context.on("requestfailed", self._end)

    def _begin(self, request: Request) -> None:
        self.started.append(request.url)
        self.open.add(request)

    def _end(self, request: Request) -> None:
        self.open.discard(request)


def measure_sizes() -> list[Result]:
    """Add up the compressed static files."""
    assets = Assets.read_package()
    scripts = {name: len(asset.gzipped) for name, asset in assets.by_name.items() if name.endswith(".js")}
    first = sum(scripts[name] for name in assets.list_modules("app.js"))
    styles = sum(len(asset.gzipped) for name, asset in assets.by_name.items() if name.endswith(".css"))
    figures = (
        ("all scripts", sum(scripts.values()), "60, never above 150"),
        ("scripts of the first page", first, "35"),
        ("styles", styles, "12"),
    )
    for name, size, goal in figures:
        print(f"  {name:42} {size / KILOBYTE:7.1f} KB gzip; goal: at most {goal}")
    return [Result(f"page, {name}, gzip", size / KILOBYTE, "KB") for name, size, _ in figures]


def report(name: str, values: Sequence[float], goal: str) -> list[Result]:
    """Print the median and the 95th percentile of times in milliseconds with the load of the machine."""
    middle, high = statistics.median(values), sorted(values)[min(len(values) - 1, round(0.95 * len(values)))]
    load = os.getloadavg()[0]
    print(f"  {name:42} p50 {middle:6.0f} ms  p95 {high:6.0f} ms  ({len(values)} times, load {load:.1f}); goal: {goal}")
    return [Result(f"page, {name}, wall clock p50", middle, "ms"), Result(f"page, {name}, wall clock p95", high, "ms")]


def new_context(browser: Browser) -> BrowserContext:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(NOTE_ANSWERS)
    return context


def measure_paint(browser: Browser, url: str) -> list[Result]:
    """Open the home page with an empty cache several times."""
    paints, requests = [], 0
    for _ in range(PAINT_ROUNDS):
        context = new_context(browser)
        page = context.new_page()
        page.goto(url)
        page.locator(".stats, .empty").first.wait_for()
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        requests = page.evaluate("1 + performance.getEntriesByType('resource').length")
        context.close()
    print(f"  {'requests of the first view':42} {requests:7}")
    return [
        *report("first contentful paint", paints, "at most 200 ms"),
        Result("page, requests of the first view", requests, ""),
    ]


def measure_typing(page: Page, server: BenchmarkServer, questions: Sequence[str], chunks: int) -> list[Result]:
    """Type questions letter by letter, each letter after the answer to the one before."""
    times: list[float] = []
    for turn, question in enumerate(questions):
        page.goto(f"{server.url}/")
        page.locator("#q").wait_for()
        page.locator(".stats").wait_for()
        if turn == 1:  # the first question warms up the model and the caches
            times, before = [], server.cpu_seconds()
        times += [page.evaluate(TYPE_LETTER, letter) for letter in question[:LETTERS_PER_QUESTION]]
    cpu_ms = (server.cpu_seconds() - before) * 1000 / len(times)
    rows = page.locator(".hit").count()
    print(f"  {'CPU of the server for each letter':42} {cpu_ms:7.1f} ms")
    print(f"  {'passages in the page':42} {rows:7}; goal: at most 20")
    return [
        *report(f"keystroke to results, {chunks:,} chunks", times, "p50 120 ms, p95 300 ms"),
        Result(f"page, server CPU for each letter, {chunks:,} chunks", cpu_ms, "ms"),
    ]


def measure_quick_typing(context: BrowserContext, url: str, question: str) -> list[Result]:
    """Type without waiting, with a short pause between letters, and count the searches."""
    page, sent, aborted = context.new_page(), [], []
    page.on("request", lambda request: sent.append(request) if request.url.endswith("/search") else None)
    page.on("requestfailed", lambda request: aborted.append(request) if request.url.endswith("/search") else None)
    page.goto(url)
    page.locator("#q").press_sequentially(question, delay=QUICK_MS)
    page.locator(".hit").first.wait_for()
    page.wait_for_timeout(1000)
    name = f"searches for {len(question)} letters, {QUICK_MS} ms apart"
    print(f"  {name:42} {len(sent):7}, {len(aborted)} of them aborted")
    page.close()
    return [Result(f"page, {name}", len(sent), "")]


def measure_opening(
    browser: Browser, server: BenchmarkServer, uids: Sequence[str], kind: str, question: str
) -> list[Result]:
    """Open the first passage of each document: for the first time, in another browser, and once more in that one."""
    rounds: dict[str, list[float]] = {"cold": [], "warm in the server": [], "warm in the browser": []}
    pictures: dict[str, list[float]] = {name: [] for name in rounds}
    other = new_context(browser)
    for name in rounds:
        for uid in uids:
            context = new_context(browser) if name == "cold" else other
            page = context.new_page()
            page.goto(f"{server.url}/?q={question}&in={uid}")
            page.locator(".hit").first.wait_for()
            page.wait_for_timeout(700)  # the page fetches the reader's module half a second after its start
            rounds[name].append(page.evaluate(OPEN_FIRST_HIT, kind))
            if kind == "page" and (spent := page.evaluate(PICTURE_MS)) is not None:
                pictures[name].append(spent)
            page.close()
            if context is not other:
                context.close()
    other.close()
    goals = {"text": ("100 ms", "100 ms", "100 ms"), "page": ("that of the picture", "none", "none")}[kind]
    what = {"text": "passage in its text", "page": "passage marked on its page"}[kind]
    results = [
        one
        for (name, times), goal in zip(rounds.items(), goals, strict=True)
        for one in report(f"{what}, {name}", times, goal)
    ]
    for name, times in pictures.items():
        if times:
            results += report(f"picture of the page alone, {name}", times, "250 ms cold, 20 ms warm")
    return results


def measure_rest(browser: Browser, url: str) -> list[Result]:
    """Count the requests of two open tabs that nobody touches, and of a hidden one."""
    context, traffic = new_context(browser), Traffic()
    traffic.watch(context)
    pages = [context.new_page() for _ in range(2)]
    for page in pages:
        page.goto(url)
        page.locator(".stats").wait_for()
        page.wait_for_timeout(2000)
    at_first = len(traffic.started)
    pages[0].wait_for_timeout(REST_SECONDS * 1000)
    at_rest, begun = len(traffic.open), len(traffic.started) - at_first
    for page in pages:
        page.evaluate(HIDE)
        page.wait_for_timeout(500)
    hidden = len(traffic.open)
    context.close()
    print(f"  {'open requests at rest, two tabs':42} {at_rest:7}; goal: 1")
    print(f"  {f'new requests in {REST_SECONDS:.0f} s of rest':42} {begun:7}; goal: 0")
    print(f"  {'open requests of hidden tabs':42} {hidden:7}; goal: 0")
    return [
        Result("page, open requests at rest, two tabs", at_rest, ""),
        Result("page, open requests of hidden tabs", hidden, ""),
    ]


def measure_rows(page: Page, url: str, jobs: int) -> list[Result]:
    """Count the rows of Activity on a server with many jobs."""
    page.goto(f"{url}/activity")
    page.locator(".rows li").first.wait_for()
    rows = page.locator(".rows li").count()
    print(f"  {f'rows of Activity, {jobs:,} jobs':42} {rows:7}; goal: at most 50")
    return [Result(f"page, rows of Activity, {jobs:,} jobs", rows, "")]


def wait_for_index(server: BenchmarkServer) -> dict[str, Any]:
    while True:
        status: dict[str, Any] = server.http.get("/api/v1/status").json()
        if status["model"]["loaded"] and status["health"]["status"] == "healthy":
            return status
        time.sleep(0.5)


def add_pdfs(server: BenchmarkServer, folder: Path) -> list[str]:
    """Add PDFs that nobody has opened yet, and return their UUIDs."""
    found = []
    for number in range(PDF_COUNT):
        path = folder / f"ledger-{time.time_ns()}.pdf"
        write_pdf(path, PDF_PAGES, seed=time.time_ns() % 1_000_000 + number)
        job = server.http.post("/api/v1/jobs", files={"file": (path.name, path.read_bytes())}).raise_for_status().json()
        while (state := server.http.get(f"/api/v1/jobs/{job['job_id']}").json())["status"] in ("queued", "processing"):
            time.sleep(0.1)
        assert state["status"] == "completed", state
        found.append(server.http.get(f"/api/v1/documents/{state['document_id']}").json()["uid"])
    return found


def list_texts(http: httpx.Client, question: str) -> list[str]:
    hits = http.post("/api/v1/search", json={"query": question, "top": 40}).json()["results"]
    return [*dict.fromkeys(hit["document_uid"] for hit in hits if hit["doc_type"] == "note")][:PDF_COUNT]


def measure_page(data: Path, browser_path: str, question_count: int) -> list[Result]:
    with run_server(data) as server, sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        status = wait_for_index(server)
        chunks, url = status["chunks"], server.url
        questions = [" ".join(words) for words in Recipe(chunks).questions(question_count + 1)]
        pdfs, texts = add_pdfs(server, Path(folder)), list_texts(server.http, questions[0])
        wait_for_index(server)
        browser = playwright.chromium.launch(executable_path=browser_path, args=list_flags())
        load, cores = os.getloadavg()[0], os.cpu_count()
        print(f"\npage in Chromium {browser.version}, {chunks:,} chunks, load {load:.1f} on {cores} cores")
        results = measure_paint(browser, url)
        context = new_context(browser)
        page = context.new_page()
        results += measure_typing(page, server, questions, chunks)
        results += measure_quick_typing(context, url, questions[0][:20])
        results += measure_opening(browser, server, texts, "text", questions[0].replace(" ", "+"))
        results += measure_opening(browser, server, pdfs, "page", "ledger")
        results += measure_rows(page, url, server.http.get("/api/v1/jobs").json()["total"])
        context.close()
        results += measure_rest(browser, url)
        browser.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="a data folder; it is filled if it does not exist")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=12)
    add_json_option(parser)
    options = parser.parse_args()
    print("page, sizes of the files")
    results = measure_sizes()
    browser = find_browser()
    if browser is None:
        print(NO_BROWSER)
    else:
        with tempfile.TemporaryDirectory() as folder:
            data = options.data or Path(folder) / "data"
            if not data.exists():
                asyncio.run(fill_folder(data, options.chunks))
            results += measure_page(data, browser, options.questions)
    write_results(options.json, results)


if __name__ == "__main__":
    main()
