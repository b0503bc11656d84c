"""The thread that crawls: an event loop of its own, several crawls at once, and no ingest worker waits with them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING

from knowledge.engine.crawl.addresses import canonical
from knowledge.engine.crawl.browser import Browser, find_browser
from knowledge.engine.crawl.crawl import Run
from knowledge.engine.crawl.frontier import Books
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.crawl.page_fetch import Visitor
from knowledge.engine.crawl.politeness import Asker, Manners
from knowledge.engine.crawl.robots import RobotsBook
from knowledge.engine.crawl.site_reader import SiteReader
from knowledge.engine.fetch.client import Fetched, Fetcher
from knowledge.errors import Internal, KnowledgeError, NothingCrawled
from knowledge.model import JobError, JobStatus, Json
from knowledge.model.crawls import Counts, CrawledPage
from knowledge.store.crawls.crawls import NewSpot, Plan
from knowledge.store.jobs.rows import Claim

if TYPE_CHECKING:
    from knowledge.engine.runtime import Parts

log = logging.getLogger(__name__)

AT_ONCE = 4
ALONE_DELAY_SECONDS = 2.0
"""So long after its start no crawl goes on that must run alone."""
MOST_WARNINGS = 20


class Crawler:
    def __init__(self, parts: Parts, options: CrawlOptions) -> None:
        self._parts, self._options = parts, options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._stopping = False
        self._alone = False
        self._alone_from = time.monotonic() + ALONE_DELAY_SECONDS
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._live, name="crawler", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def wake(self) -> None:
        """A crawl has been queued."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._news.set)

    def close(self) -> None:
        """Stop at once; crawls that are under way are queued again, with all they know."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    # -- the thread -----------------------------------------------------------------------------

    def _live(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        self._news.set()
        manners = Manners(self._options.delay)
        running: set[asyncio.Task[None]] = set()
        async with Fetcher(self._options.allowed, self._options.patience) as fetcher:
            asker = Asker(fetcher, manners, self._options.retrying)
            while not self._stopping:
                await self._news.wait()
                self._news.clear()
                while not self._stopping and (claim := await self._claim(len(running))) is not None:
                    task = asyncio.create_task(self._crawl(claim, asker))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(self._over)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _over(self, _: asyncio.Task[None]) -> None:
        self._alone = False
        self._news.set()

    async def _claim(self, running: int) -> Claim | None:
        """The next crawl; one that must run alone comes after all others, and no other runs beside it."""
        if self._alone or running >= AT_ONCE:
            return None
        try:
            claim = await asyncio.to_thread(self._parts.jobs.claim_crawl)
            if claim is None and not running:
                claim = await self._claim_alone()
        except KnowledgeError:
            log.exception("No crawl could be claimed")
            return None
        return claim

    async def _claim_alone(self) -> Claim | None:
        early = self._alone_from - time.monotonic()
        if early > 0:
            asyncio.get_running_loop().call_later(early, self._news.set)
            return None
        claim = await asyncio.to_thread(self._parts.jobs.claim_crawl, True)
        self._alone = claim is not None
        return claim

    # -- one crawl ------------------------------------------------------------------------------

    async def _crawl(self, claim: Claim, asker: Asker) -> None:
        began = time.monotonic()
        self._parts.board.begin(claim.id)
        try:
            outcome = await self._run(claim, asker)
        except Exception:  # the store itself is in trouble: the crawl stays claimed and goes on at the next start
            log.exception("crawl %s could not be ended", claim.uid)
            outcome = "stuck"
        finally:
            self._parts.board.end(claim.id)
        log.info("crawl %s %s %.0f ms", claim.uid, outcome, (time.monotonic() - began) * 1000)

    async def _run(self, claim: Claim, asker: Asker) -> str:
        plan = await asyncio.to_thread(self._plan, claim)
        run = self._prepare(claim, plan, asker)
        working = asyncio.create_task(run.go())
        try:
            await self._until_done_or_cancelled(claim, working)
            if working.cancelled():
                await run.withdraw()
                await asyncio.to_thread(self._parts.jobs.cancelled, claim)
                return "cancelled"
            working.result()
        except asyncio.CancelledError:  # the process ends; what is on its way in goes on at the next start
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            self._parts.jobs.release(claim)
            return "queued again"
        except KnowledgeError as error:
            return await self._fail(claim, error)
        except Exception:
            log.exception("crawl %s failed through a fault of ours", claim.uid)
            return await self._fail(claim, Internal("The crawl failed through an internal error"))
        return await self._finish(claim, run)

    def _plan(self, claim: Claim) -> Plan:
        url = str(claim.payload["url"])
        return self._parts.crawls.begin(claim.id, NewSpot(canonical(url), url, 0))

    def _prepare(self, claim: Claim, plan: Plan, asker: Asker) -> Run:
        async def get(url: str, most: int) -> Fetched:
            return await asker.get(url, most)

        def tell(step: str, done: int, total: int) -> None:
            self._parts.board.report(claim.id, step, done, total)

        options = self._options
        path = find_browser(options.browser)
        browser = Browser(path, options.allowed, options.render_seconds) if path else None
        reader = SiteReader(self._parts.parsers, self._parts.files)
        visitor = Visitor(asker, RobotsBook(get, reader), reader, options.max_page_bytes, browser)
        return Run(plan, Books(self._parts, plan, claim.owner), visitor, options.max_bytes, tell)

    async def _until_done_or_cancelled(self, claim: Claim, working: asyncio.Task[None]) -> None:
        with self._parts.board.watch(claim.id) as watch:
            while not working.done():
                news = asyncio.create_task(watch.changed(1.0))
                try:
                    await asyncio.wait({news, working}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                if self._parts.board.is_cancelled(claim.id) and not working.done():
                    working.cancel()
                    await asyncio.gather(working, return_exceptions=True)

    # -- how it ends ----------------------------------------------------------------------------

    async def _finish(self, claim: Claim, run: Run) -> str:
        report = await asyncio.to_thread(self._parts.crawls.pages, claim.id)
        counts = await run.books.counts()
        if not counts.crawled:
            return await self._fail(claim, nothing(run.plan.url, report))
        status = JobStatus.PARTIAL if counts.failed else JobStatus.COMPLETED
        notes = warnings(report, counts, run.limit)
        await asyncio.to_thread(self._parts.jobs.ended, claim, status, notes, counts.chunks)
        return f"{counts.crawled} crawled, {counts.failed} failed, {counts.skipped} skipped"

    async def _fail(self, claim: Claim, error: KnowledgeError) -> str:
        problem = JobError(error.code, str(error), error.hint, error.details)
        await asyncio.to_thread(self._parts.jobs.fail, claim, problem, keep_original=False)
        return f"failed: {error.code}"


def nothing(url: str, pages: tuple[CrawledPage, ...]) -> NothingCrawled:
    """A crawl that brought no document has failed, and says why."""
    worst = [page for page in pages if page.reason is not None]
    why = f"{worst[0].reason}: {worst[0].detail}" if worst else "there was nothing to read"
    reasons: Json = {page.url: f"{page.reason}: {page.detail}" for page in worst[:MOST_WARNINGS]}
    return NothingCrawled(f"No page of {url} could be taken in ({why})", url=url, reasons=reasons)


def warnings(pages: tuple[CrawledPage, ...], counts: Counts, limit: str | None) -> tuple[str, ...]:
    found = [f"{page.url}: {page.reason}: {page.detail}" for page in pages if page.outcome == "failed"]
    if len(found) > MOST_WARNINGS:
        found = [*found[:MOST_WARNINGS], f"{len(found) - MOST_WARNINGS} more pages failed"]
    if limit is not None:
        found.append(f"The crawl ended early: {limit}")
    if counts.pending:
        found.append(f"{counts.pending} more addresses were found and left")
    return tuple(found)
