"""Runs the soak: clients, changes and restarts on one server, and checks what is left in the end."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from playwright.async_api import Browser, async_playwright

from tests.soak.changes import Writer
from tests.soak.clients import ChromiumClient, McpClient, PageClient, Question, RestClient, SoakClient
from tests.soak.record import Acknowledged, Latencies, make_question
from tests.soak.server import OPERATOR_KEY, Growth, RestartedServer
from tests.support.browser import find_browser, list_flags
from tests.support.web_site import WebSite, serve_site

ACCOUNT = {"username": "soak", "password": "a long enough password"}
WRITERS = 4
FIRST_DOCUMENTS = 20
RESTART_SHARES = 0.15, 0.45
"""When the server is restarted for the first and the last time, as shares of the run; the rest of the time shows
whether memory stays flat."""
KNOWN_WORD_SHARE = 0.34
"""Share of the searches that ask for a document which the server has acknowledged."""
SAMPLE_SECONDS = 2.0
WARM_UP_SHARE = 0.4
"""Of the time after the last restart."""
SAMPLES_PER_WINDOW = 10
GROWTH_FACTOR, GROWTH_MB = 1.1, 24.0
EXTRA_DESCRIPTORS = 16
EXTRA_THREADS = 8


@dataclass(frozen=True)
class SoakPlan:
    minutes: float = 30.0
    seed: int = 20261118
    clients: int = 100
    searches_per_second: float = 15.0
    restarts: int = 4
    import_pause_seconds: float = 4.0
    """Mean pause of each writer between two changes."""
    crawl_pause_seconds: float = 20.0

    @property
    def seconds(self) -> float:
        return self.minutes * 60

    def list_restart_times(self) -> list[float]:
        """Return the seconds after which the server is restarted."""
        first, last = RESTART_SHARES
        step = (last - first) / max(self.restarts - 1, 1)
        return [self.seconds * (first + step * number) for number in range(self.restarts)]


@dataclass
class SoakReport:
    """What a run has measured, and every problem that it has found."""

    plan: SoakPlan
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class Soak:
    plan: SoakPlan
    server: RestartedServer
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    latencies: Latencies = field(default_factory=Latencies)
    key: str = ""
    session: str = ""
    clients: list[SoakClient] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    began: float = 0.0

    async def log_in(self) -> None:
        async with httpx.AsyncClient(base_url=f"{self.server.url}/api/v1", timeout=60) as http:
            made = await http.post("/user/register", json=ACCOUNT, headers={"X-API-Key": OPERATOR_KEY})
            assert made.status_code in (201, 409), made.text
            self.key = (await http.post("/user/login", json=ACCOUNT)).json()["api_key"]
            assert (await http.post("/session", json={**ACCOUNT, "stay": True})).status_code == 200
            self.session = http.cookies["knowledge_session"]

    def make_clients(self, browser: Browser | None) -> None:
        """Make four tenths REST, four tenths MCP (half with a handshake) and two tenths page, one of them Chromium."""
        common = (self.server, self.acknowledged, self.latencies, self.key)
        pages = self.plan.clients // 5
        agents = (self.plan.clients - pages) // 2
        self.clients += [RestClient(*common) for _ in range(self.plan.clients - pages - agents)]
        self.clients += [McpClient(*common, mode=("auto", "legacy")[number % 2]) for number in range(agents)]
        self.clients += [PageClient(*common, session=self.session) for _ in range(pages - (browser is not None))]
        if browser is not None:
            self.clients.append(ChromiumClient(*common, session=self.session, browser=browser))

    async def ask_steadily(self, rng: random.Random) -> None:
        """Give a search to a client at every tick, whether or not the earlier ones are answered."""
        for number in itertools.count():
            due = self.began + number / self.plan.searches_per_second
            if due > self.began + self.plan.seconds:
                return
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            question = Question(make_question(rng), due, self.server.epoch)
            known = self.acknowledged.choose_word(rng) if rng.random() < KNOWN_WORD_SHARE else None
            if known is not None:
                question.path, question.word = known
                question.text = f"register of {question.word}"
            rng.choice(self.clients).queue.put_nowait(question)

    async def restart_at_times(self) -> None:
        for number, seconds in enumerate(self.plan.list_restart_times()):
            await asyncio.sleep(max(0.0, self.began + seconds - time.monotonic()))
            await self.server.restart(kill=number % 2 == 0)

    async def take_samples(self) -> None:
        while True:
            await asyncio.to_thread(self.server.take_sample)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def run(self, browser: Browser | None, site: WebSite) -> None:
        await self.server.start()
        await self.log_in()
        self.make_clients(browser)
        headers = {"X-API-Key": self.key}
        async with httpx.AsyncClient(base_url=f"{self.server.url}/api/v1", headers=headers, timeout=120) as http:
            writer = Writer(self.server, self.acknowledged, http)
            rng = random.Random(self.plan.seed)
            for number in range(FIRST_DOCUMENTS):  # an empty knowledge base refuses searches over MCP
                await writer.add(f"/soak/0/{number}", rng)
            changes = [
                self.watch(writer.change_documents(number, random.Random(rng.random()), self.plan.import_pause_seconds))
                for number in range(WRITERS)
            ]
            changes.append(
                self.watch(writer.crawl_repeatedly(site, random.Random(rng.random()), self.plan.crawl_pause_seconds))
            )
            clients = [asyncio.create_task(client.run()) for client in self.clients]
            self.began = time.monotonic()
            sampling = asyncio.create_task(self.take_samples())
            await asyncio.gather(self.ask_steadily(random.Random(rng.random())), self.restart_at_times())
            await self.wait_for_answers()
            self.check_connections()
            await cancel([*clients, sampling, *changes])
            await self.check_documents(writer)
        await self.server.stop()
        self.verify()

    def watch(self, changes: AsyncIterator[None] | object) -> asyncio.Task[None]:
        """Run changes in a task whose error is a problem of the run."""

        async def run_changes() -> None:
            try:
                await changes  # type: ignore[misc]
            except Exception as error:
                self.problems.append(f"{type(error).__name__}: {error}")

        return asyncio.create_task(run_changes())

    async def wait_for_answers(self) -> None:
        async with asyncio.timeout(300):
            while any(not client.queue.empty() for client in self.clients):
                await asyncio.sleep(0.1)

    def check_connections(self) -> None:
        silent = [client.surface for client in self.clients if not client.connections]
        self.problems += [f"clients that never connected: {silent}"] if silent else []
        deaf = [client.surface for client in self.clients if isinstance(client, PageClient) and not client.streams]
        self.problems += [f"pages without an event stream: {deaf}"] if deaf else []

    async def check_documents(self, writer: Writer) -> None:
        """Check that everything acknowledged is found, and nothing that was replaced or deleted."""
        for status in ("queued", "processing"):
            while (await writer.send_expecting(200, "GET", "/jobs", params={"status": status}))["total"]:
                await asyncio.sleep(0.25)
        failed = await writer.send_expecting(200, "GET", "/jobs", params={"status": "failed"})
        self.problems += [f"{failed['total']} jobs have failed"] if failed["total"] else []
        for path, word in self.acknowledged.stored.items():
            if path not in self.acknowledged.changing and not await self.is_found(writer, word):
                self.problems.append(f"lost: {path} with {word}")
        for word in self.acknowledged.removed:
            if await self.is_found(writer, word):
                self.problems.append(f"still found: {word}")
        settled = len(self.acknowledged.stored.keys() - self.acknowledged.changing)
        total = (await writer.send_expecting(200, "GET", "/documents"))["total"]
        if not settled <= total <= settled + len(self.acknowledged.changing):
            self.problems.append(f"{total} documents instead of {settled}")

    async def is_found(self, writer: Writer, word: str) -> bool:
        answer = await writer.send_expecting(200, "POST", "/search", json={"query": word, "mode": "text"})
        return word in json.dumps(answer["results"])

    def verify(self) -> None:
        command = [sys.executable, "-m", "knowledge", "--data", str(self.server.data), "--json", "verify"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            self.problems.append(f"verify: {done.stdout[:2000]} {done.stderr[-500:]}")

    def report(self) -> SoakReport:
        report, plan = SoakReport(self.plan), self.plan
        growth = Growth.measure(self.server.samples, WARM_UP_SHARE, SAMPLES_PER_WINDOW)
        events = sum(client.events for client in self.clients if isinstance(client, PageClient))
        changes = ", ".join(f"{count} {name}" for name, count in sorted(self.acknowledged.changes.items()))
        downtimes = ", ".join(f"{seconds:.1f}" for seconds in self.server.down_seconds)
        report.lines = [
            f"soak of {plan.minutes:g} minutes, {len(self.clients)} clients, {plan.searches_per_second:g} searches a "
            f"second, seed {plan.seed}, load average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
            *self.latencies.describe(),
            f"interrupted by a restart and repeated or not timed: {self.latencies.interrupted} searches",
            f"documents: {changes}; {len(self.acknowledged.stored)} at the end; {events} events received",
            f"restarts: {len(self.server.down_seconds)}, down for {downtimes} s (SIGKILL and SIGTERM in turn)",
            f"memory {growth.memory_mb[0]:.0f} to {growth.memory_mb[1]:.0f} MB, descriptors {growth.descriptors[0]:.0f}"
            f" to {growth.descriptors[1]:.0f}, threads {growth.threads[0]:.0f} to {growth.threads[1]:.0f} "
            f"within {growth.seconds:.0f} s after the warm-up of the last process",
        ]
        report.problems = [*self.problems, *self.latencies.failures, *find_growth(growth)]
        outcome = f"problems: {len(report.problems)}" if report.problems else "nothing lost, verify clean"
        report.lines.append(outcome)
        return report


def find_growth(growth: Growth) -> list[str]:
    """Return what has grown beyond the noise between two windows of samples."""
    pairs = (
        ("MB of memory", growth.memory_mb, growth.memory_mb[0] * GROWTH_FACTOR + GROWTH_MB),
        ("descriptors", growth.descriptors, growth.descriptors[0] + EXTRA_DESCRIPTORS),
        ("threads", growth.threads, growth.threads[0] + EXTRA_THREADS),
    )
    return [f"{name} grew from {first:.0f} to {last:.0f}" for name, (first, last), most in pairs if last > most]


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser | None]:
    path = find_browser()
    if path is None:
        yield None
        return
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list_flags())
        yield browser
        await browser.close()


async def run_soak(plan: SoakPlan, folder: Path) -> SoakReport:
    """Run a soak with its data in a folder and return what it has measured."""
    environment = {"KNOWLEDGE_CRAWL_ALLOW": "127.0.0.1", "KNOWLEDGE_CRAWL_DELAY": "0", "KNOWLEDGE_RERANKER": "none"}
    soak = Soak(plan, RestartedServer(folder, environment))
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(open_browser())
        site = stack.enter_context(serve_site())
        try:
            await soak.run(browser, site)
        finally:
            if soak.server.process is not None and soak.server.process.poll() is None:
                soak.server.process.kill()
                soak.server.process.wait()
    return soak.report()
