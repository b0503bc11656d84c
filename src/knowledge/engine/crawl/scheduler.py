"""Claims queued crawls and runs several at once on the event loop of a separate thread, beside the ingest workers."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from knowledge.engine.crawl.browser import HeadlessBrowser, find_browser
from knowledge.engine.crawl.crawl_run import CrawlRun
from knowledge.engine.crawl.frontier import Frontier
from knowledge.engine.crawl.ingest_page import CrawlStores, PageIngester
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.crawl.page_fetch import PageFetcher
from knowledge.engine.crawl.politeness import HostRateLimiter, PoliteClient
from knowledge.engine.crawl.robots import RobotsCache
from knowledge.engine.crawl.site_reader import SiteReader
from knowledge.engine.crawl.urls import canonicalize_url
from knowledge.engine.fetch.client import Fetcher, FetchResponse
from knowledge.engine.ingest.accept import Acceptor
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.removal import Removal
from knowledge.errors import Internal, KnowledgeError, NothingCrawled
from knowledge.model import JobError, JobStatus, Json
from knowledge.model.crawls import CrawlCounts, CrawledPage
from knowledge.model.jobs import JobPhase
from knowledge.store.crawls.crawls import CrawlPlan, NewFrontierEntry
from knowledge.store.jobs.rows import JobClaim
from knowledge.telemetry import metrics

log = logging.getLogger(__name__)

MAX_CONCURRENT_CRAWLS = 4
# A quarantined crawl starts this long after the server, so that an operator can cancel it first.
ALONE_DELAY_SECONDS = 2.0
MAX_WARNINGS = 20


class CrawlScheduler:
    def __init__(
        self,
        options: CrawlOptions,
        stores: CrawlStores,
        progress: ProgressTracker,
        reader: SiteReader,
        acceptor: Acceptor,
        removal: Removal,
    ) -> None:
        self._options, self._stores, self._progress, self._reader = options, stores, progress, reader
        self._acceptor, self._removal = acceptor, removal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake_event = asyncio.Event()
        self._stopping = False
        self._alone = False
        self._alone_not_before = time.monotonic() + ALONE_DELAY_SECONDS
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="crawler", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def wake(self) -> None:
        """Make the scheduler claim queued crawls."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake_event.set)

    def close(self) -> None:
        """Stop at once; running crawls are queued again and keep their frontier."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    # -- the thread -----------------------------------------------------------------------------

    def _run_loop(self) -> None:
        asyncio.run(self._claim_crawls())

    async def _claim_crawls(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        self._wake_event.set()
        rate_limiter = HostRateLimiter(self._options.delay)
        running: set[asyncio.Task[None]] = set()
        async with Fetcher(self._options.allowed, self._options.timeouts) as fetcher:
            client = PoliteClient(fetcher, rate_limiter, self._options.retry_policy)
            while not self._stopping:
                await self._wake_event.wait()
                self._wake_event.clear()
                while not self._stopping and (claim := await self._claim_crawl(len(running))) is not None:
                    task = asyncio.create_task(self._run_crawl(claim, client))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(self._on_crawl_end)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _on_crawl_end(self, _: asyncio.Task[None]) -> None:
        self._alone = False
        self._wake_event.set()

    async def _claim_crawl(self, running: int) -> JobClaim | None:
        """Claim the next crawl; a quarantined crawl is claimed after all others and runs without any beside it."""
        if self._alone or running >= MAX_CONCURRENT_CRAWLS:
            return None
        try:
            claim = await asyncio.to_thread(self._stores.jobs.claim_crawl)
            if claim is None and not running:
                claim = await self._claim_alone()
        except KnowledgeError:
            log.exception("claiming a crawl failed")
            return None
        return claim

    async def _claim_alone(self) -> JobClaim | None:
        remaining = self._alone_not_before - time.monotonic()
        if remaining > 0:
            asyncio.get_running_loop().call_later(remaining, self._wake_event.set)
            return None
        claim = await asyncio.to_thread(self._stores.jobs.claim_crawl, True)
        self._alone = claim is not None
        return claim

    # -- one crawl ------------------------------------------------------------------------------

    async def _run_crawl(self, claim: JobClaim, client: PoliteClient) -> None:
        started = time.monotonic()
        self._progress.begin(claim.id, claim.token)
        if claim.cancel_requested:
            self._progress.cancel(claim.id)
        try:
            outcome = await self._execute_crawl(claim, client)
        except Exception:  # the store failed: the crawl stays claimed and is resumed at the next start
            log.exception("storing the outcome of crawl %s failed", claim.uid)
            outcome = "stuck"
        finally:
            self._progress.end(claim.id)
        seconds = time.monotonic() - started
        metrics.JOBS[claim.kind.value, metrics.label_outcome(outcome)].inc()
        metrics.JOB_SECONDS[claim.kind.value].observe(seconds)
        log.info("crawl %s %s %.0f ms", claim.uid, outcome, seconds * 1000)

    async def _execute_crawl(self, claim: JobClaim, client: PoliteClient) -> str:
        plan = await asyncio.to_thread(self._load_plan, claim)
        run = self._make_run(claim, plan, client)
        task = asyncio.create_task(run.run())
        try:
            await self._wait_until_done_or_cancelled(claim, task)
            if self._progress.is_lease_lost(claim.id):  # another server resumes the crawl
                await asyncio.gather(task, return_exceptions=True)
                await asyncio.to_thread(self._stores.jobs.requeue, claim)
                return "queued again: its lease has expired"
            if task.cancelled():
                await run.withdraw_pages()
                await asyncio.to_thread(self._stores.jobs.mark_cancelled, claim)
                return "cancelled"
            task.result()
        except asyncio.CancelledError:  # the process ends; page jobs that are queued continue at the next start
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._stores.jobs.requeue(claim)
            return "queued again"
        except KnowledgeError as error:
            return await self._fail_crawl(claim, error)
        except Exception:
            log.exception("crawl %s failed with an internal error", claim.uid)
            return await self._fail_crawl(claim, Internal("The crawl failed with an internal error"))
        return await self._finish_crawl(claim, run)

    def _load_plan(self, claim: JobClaim) -> CrawlPlan:
        url = str(claim.payload["url"])
        return self._stores.crawls.begin_crawl(claim.id, NewFrontierEntry(canonicalize_url(url), url, 0))

    def _make_run(self, claim: JobClaim, plan: CrawlPlan, client: PoliteClient) -> CrawlRun:
        async def get(url: str, max_bytes: int) -> FetchResponse:
            return await client.get(url, max_bytes)

        def report(step: str, done: int, total: int) -> None:
            self._progress.report(claim.id, step, done, total, JobPhase.CRAWL, "pages")

        options = self._options
        path = find_browser(options.browser)
        browser = HeadlessBrowser(path, options.allowed, options.render_seconds) if path else None
        fetcher = PageFetcher(client, RobotsCache(get, self._reader), self._reader, options.max_page_bytes, browser)
        ingester = PageIngester(
            plan.collection_id, claim.owner, self._stores, self._progress, self._acceptor, self._removal
        )
        return CrawlRun(
            plan, Frontier(plan, self._stores, self._progress, ingester), fetcher, options.max_bytes, report
        )

    async def _wait_until_done_or_cancelled(self, claim: JobClaim, task: asyncio.Task[None]) -> None:
        with self._progress.watch(claim.id) as watch:
            while not task.done():
                change = asyncio.create_task(watch.wait_for_change(1.0))
                try:
                    await asyncio.wait({change, task}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    change.cancel()
                must_stop = self._progress.is_cancelled(claim.id) or self._progress.is_lease_lost(claim.id)
                if must_stop and not task.done():
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    # -- storing the outcome --------------------------------------------------------------------

    async def _finish_crawl(self, claim: JobClaim, run: CrawlRun) -> str:
        pages = await asyncio.to_thread(self._stores.crawls.list_pages, claim.id)
        counts = await run.frontier.count_pages()
        if not counts.crawled:
            return await self._fail_crawl(claim, make_nothing_crawled(run.plan.url, pages))
        status = JobStatus.PARTIAL if counts.failed else JobStatus.COMPLETED
        warnings = list_warnings(pages, counts, run.stop_reason)
        await asyncio.to_thread(self._stores.jobs.mark_ended, claim, status, warnings, counts.chunks)
        return f"crawled {counts.crawled}, failed {counts.failed}, skipped {counts.skipped}"

    async def _fail_crawl(self, claim: JobClaim, error: KnowledgeError) -> str:
        problem = JobError(error.code, str(error), error.hint, error.details)
        await asyncio.to_thread(self._stores.jobs.mark_failed, claim, problem, keep_original=False)
        metrics.JOB_ERRORS[claim.kind.value, error.code].inc()
        return f"failed: {error.code}"


def make_nothing_crawled(url: str, pages: tuple[CrawledPage, ...]) -> NothingCrawled:
    """Make the error of a crawl that added no document, with the reason of each page."""
    left_out = [page for page in pages if page.reason is not None]
    why = f"{left_out[0].reason}: {left_out[0].detail}" if left_out else "no page was found"
    reasons: Json = {page.url: f"{page.reason}: {page.detail}" for page in left_out[:MAX_WARNINGS]}
    return NothingCrawled(f"No page of {url} could be crawled ({why})", url=url, reasons=reasons)


def list_warnings(pages: tuple[CrawledPage, ...], counts: CrawlCounts, stop_reason: str | None) -> tuple[str, ...]:
    found = [f"{page.url}: {page.reason}: {page.detail}" for page in pages if page.outcome == "failed"]
    if len(found) > MAX_WARNINGS:
        found = [*found[:MAX_WARNINGS], f"{len(found) - MAX_WARNINGS} more pages failed"]
    if stop_reason is not None:
        found.append(f"The crawl ended early: {stop_reason}")
    if counts.pending:
        found.append(f"{counts.pending} more URLs were found and not crawled")
    return tuple(found)
