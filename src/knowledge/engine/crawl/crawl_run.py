"""A crawl from its first address to its last: breadth first, each page once, every outcome written down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress

from knowledge.engine.crawl import page_fetch
from knowledge.engine.crawl.frontier import Frontier
from knowledge.engine.crawl.ingest_page import FetchedPage
from knowledge.engine.crawl.page_fetch import PageFetcher, RedirectResult
from knowledge.engine.crawl.sitemaps import list_llms_pages, list_sitemap_pages
from knowledge.engine.crawl.urls import canonicalize_url, host_of, list_html_twins
from knowledge.errors import DocumentNotFound, Duplicate, KnowledgeError, load_job_error
from knowledge.model import Document, Job, JobStatus, new_uid
from knowledge.model.crawls import CrawledPage, OutcomeReason, PageOutcome
from knowledge.store.crawls.crawls import CrawlPlan, FrontierEntry, NewFrontierEntry
from knowledge.store.crawls.site_pages import SitePage

GONE_STATUSES = (404, 410)
MISSING_CRAWLS_BEFORE_REMOVAL = 2
"""So often in a row a page must be missing before its document goes."""
LAST_DEPTH = 1000
"""The depth of pages that nothing links to any more: they are looked at after all others."""
MAX_PAGES_IN_INGEST = 16
MIN_MISSING_PAGE_CHECKS = 20
EXTRA_TRIES = 20

ReportStep = Callable[[str, int, int], None]


class CrawlRun:
    def __init__(
        self, plan: CrawlPlan, books: Frontier, visitor: PageFetcher, max_bytes: int, report: ReportStep
    ) -> None:
        self.plan, self.frontier, self.fetcher = plan, books, visitor
        self._report, self._max_bytes = report, max_bytes
        self._site, self._seeded = plan.site, plan.seeded
        self._start = plan.url
        self._crawled = self._tries = self._bytes = 0
        self._ingesting: set[asyncio.Task[None]] = set()
        self.stop_reason: str | None = None
        """Why addresses were left, where it was not for max_pages."""

    async def run(self) -> None:
        await self._resume_pages()
        await self._visit_pending()
        if self.plan.recursive and self._site is not None:
            if await self._wait_for_capacity():
                await self.frontier.add_entries(
                    [self._make_entry(page.url, LAST_DEPTH) for page in await self._find_unseen_pages()]
                )
                await self._visit_pending()
            await self._check_missing_pages()
        await self._wait_for_pages()

    async def withdraw_pages(self) -> None:
        """Take back the pages that are still on their way in."""
        for task in self._ingesting:
            task.cancel()
        for spot in await self.frontier.list_ingesting():
            if spot.page_job_uid is not None:
                await self.frontier.withdraw_job(spot.page_job_uid)

    # -- the loop -------------------------------------------------------------------------------

    async def _resume_pages(self) -> None:
        """Find the pages again that were on their way in when the last process ended."""
        counts = await self.frontier.count_pages()
        self._crawled, self._bytes = counts.crawled, counts.bytes
        self._tries = counts.crawled + counts.failed
        for spot in await self.frontier.list_ingesting():
            job = await self.frontier.find_job(spot.page_job_uid) if spot.page_job_uid else None
            if job is None or job.status is JobStatus.CANCELLED:
                await self.frontier.reopen_entry(spot)
            else:
                self._watch_page_job(spot, spot.known_as or spot.name, job, existed=False)

    async def _visit_pending(self) -> None:
        while await self._wait_for_capacity() and (spot := await self.frontier.next_entry()) is not None:
            self._report(f"Crawling {spot.url}", self._crawled, self.plan.max_pages)
            await self._visit_address(spot)
            if self.plan.recursive and not self._seeded and self._site is not None:
                await self._seed_from_sitemaps(self._site)

    async def _wait_for_capacity(self) -> bool:
        """Whether another page may be fetched; waits while as many are on their way as there is room for."""
        if self._tries >= 3 * self.plan.max_pages + EXTRA_TRIES:
            self.stop_reason = "too many addresses brought nothing"
        if self._bytes >= self._max_bytes:
            self.stop_reason = f"the crawl has reached {self._max_bytes >> 20} MB (KNOWLEDGE_CRAWL_MAX_MB)"
        while self.stop_reason is None:
            waiting = len(self._ingesting)
            if self._crawled + waiting < self.plan.max_pages and waiting < MAX_PAGES_IN_INGEST:
                return True
            if not waiting:
                return False
            await asyncio.wait(self._ingesting, return_when=asyncio.FIRST_COMPLETED)
        return False

    async def _wait_for_pages(self) -> None:
        while self._ingesting:
            self._report("Taking in the last pages", self._crawled, self._crawled + len(self._ingesting))
            await asyncio.wait(self._ingesting, return_when=asyncio.FIRST_COMPLETED)

    # -- one address ----------------------------------------------------------------------------

    async def _visit_address(self, spot: FrontierEntry) -> None:
        self._tries += 1
        memory = await self.frontier.find_site_page(spot.name)
        site = self._site if spot.depth else None
        landing = await self.fetcher.follow_redirects(spot.url, memory, site, self.plan.exclude)
        if isinstance(landing, CrawledPage):
            await self.frontier.close_entry(spot, landing)
            return
        await self._set_site(landing)
        if landing.name != spot.name:
            if landing.moved_permanently and memory is not None:
                await self._record_missing(spot.name, spot.url, "It was moved for good")
            moved = await self._follow_move(spot, landing)
            if moved is None:
                return
            spot = moved
        if landing.is_unchanged and memory is not None and memory.document_id is not None:
            await self._close_unchanged(spot, memory)
            return
        found, links = await self.fetcher.read_page(landing)
        await self._add_links(links, spot.depth + 1)
        if isinstance(found, CrawledPage):
            await self._close_unusable(spot, found)
        else:
            await self._ingest_page(spot, found)

    async def _set_site(self, landing: RedirectResult) -> None:
        """The site is the host on which the first page was found, after its redirects."""
        if self._site is None:
            self._start = landing.fetched.url
            self._site = host_of(self._start)
            await self.frontier.set_site(self._site)

    async def _follow_move(self, spot: FrontierEntry, landing: RedirectResult) -> FrontierEntry | None:
        """Close an address that leads to another one; None when that is part of the crawl already."""
        url = landing.fetched.url
        new = await self.frontier.add_entries([NewFrontierEntry(landing.name, url, spot.depth)])
        if not new:
            await self.frontier.close_entry(
                spot, page_fetch.make_skipped(spot.url, OutcomeReason.DUPLICATE, f"It leads to {url}")
            )
            return None
        await self.frontier.close_entry(
            spot, page_fetch.make_skipped(spot.url, OutcomeReason.REDIRECT, f"It leads to {url}")
        )
        return await self.frontier.find_entry(landing.name)

    async def _close_unchanged(self, spot: FrontierEntry, memory: SitePage) -> None:
        document = await self.frontier.find_document(memory.document_id or 0)
        await self.frontier.mark_seen(memory.name)
        await self._add_links(memory.links, spot.depth + 1)
        self._crawled += 1
        page = _make_crawled_page(
            memory.url, PageOutcome.UNCHANGED, document, "It has not changed since the last crawl", 304
        )
        await self.frontier.close_entry(spot, page, memory.name)

    async def _close_unusable(self, spot: FrontierEntry, page: CrawledPage) -> None:
        if page.http_status in GONE_STATUSES:
            page = await self._record_missing(spot.name, page.url, f"HTTP {page.http_status}", page.http_status)
        await self.frontier.close_entry(spot, page)

    async def _record_missing(self, name: str, url: str, why: str, status: int | None = None) -> CrawledPage:
        """A page that is not there: the first time its document stays, the second time it goes."""
        times, document = await self.frontier.mark_missing(name)
        if document is None:
            return page_fetch.make_failed(url, OutcomeReason.HTTP_STATUS, why, status)
        if times < MISSING_CRAWLS_BEFORE_REMOVAL:
            detail = f"{why}; its document stays until the page is missing once more"
            return page_fetch.make_failed(url, OutcomeReason.GONE, detail, status)
        with suppress(DocumentNotFound):  # somebody may have been faster
            await self.frontier.remove_page(name, document.id)
        detail = f"{why}, for the second time; its document was removed"
        return CrawledPage(url, PageOutcome.REMOVED, OutcomeReason.GONE, detail, status)

    # -- taking in ------------------------------------------------------------------------------

    async def _ingest_page(self, spot: FrontierEntry, found: FetchedPage) -> None:
        taken, before = await self.frontier.find_earlier(spot, found.name)
        if taken:
            await self.frontier.close_entry(
                spot, page_fetch.make_skipped(found.url, OutcomeReason.DUPLICATE, f"It is {found.name}")
            )
            return
        self._bytes += len(found.body)
        try:
            job = await self.frontier.ingest_page(spot, found, new_uid())
        except Duplicate as error:
            await self._close_duplicate(spot, found, before, error)
        except KnowledgeError as error:
            await self.frontier.forget_validators(found.name)
            await self.frontier.close_entry(spot, page_fetch.outcome_of_error(found.url, error))
        else:
            self._watch_page_job(spot, found.name, job, existed=before is not None)

    async def _close_duplicate(
        self, spot: FrontierEntry, found: FetchedPage, before: int | None, error: Duplicate
    ) -> None:
        if before is not None and before == error.details["document_id"]:
            self._crawled += 1
            document = await self.frontier.find_document(before)
            page = _make_crawled_page(
                found.url, PageOutcome.UNCHANGED, document, "Its content has not changed since the last crawl"
            )
        else:
            twin = error.details["title"]
            page = page_fetch.make_skipped(found.url, OutcomeReason.DUPLICATE, f"It has the same content as '{twin}'")
        await self.frontier.close_entry(spot, page, found.name)

    def _watch_page_job(self, spot: FrontierEntry, name: str, job: Job, existed: bool) -> None:
        task = asyncio.create_task(self._close_when_ended(spot, name, job, existed))
        self._ingesting.add(task)
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._ingesting.discard(task)
        if not task.cancelled():
            task.exception()  # a store in trouble shows at the next step of the crawl itself

    async def _close_when_ended(self, spot: FrontierEntry, name: str, job: Job, existed: bool) -> None:
        ended = await self.frontier.wait_for_job(job)
        document = await self.frontier.find_document(ended.document_id) if ended.document_id else None
        page = _make_ended_page(spot.url, name, ended, document, existed)
        if page.outcome.is_crawled:
            self._crawled += 1
        else:
            await self.frontier.forget_validators(name)
        await self.frontier.close_entry(spot, page, name)

    # -- where pages are found ------------------------------------------------------------------

    def _make_entry(self, url: str, depth: int) -> NewFrontierEntry:
        assert self._site is not None
        return NewFrontierEntry(
            canonicalize_url(url), url, depth, page_fetch.check_scope(url, self._site, self.plan.exclude)
        )

    async def _add_links(self, links: Sequence[str], depth: int) -> None:
        if self.plan.recursive and self._site is not None:
            await self.frontier.add_entries([self._make_entry(url, depth) for url in links])

    async def _seed_from_sitemaps(self, site: str) -> None:
        """Read what the site lists by itself; what lies below the first page comes before the rest."""
        start = self._start if host_of(self._start) == site else f"https://{site}/"
        folder = start.rsplit("/", 1)[0] + "/"
        get, reader = self.fetcher.fetch_file, self.fetcher.reader
        listed = await list_sitemap_pages(start, await self.fetcher.list_sitemaps(start), get, reader)
        own = sorted((url for url in listed if host_of(url) == site), key=lambda url: not url.startswith(folder))
        await self.frontier.add_entries([self._make_entry(url, 1) for url in own])
        await self.frontier.add_entries(
            [spot async for spot in self._make_llms_entries(await list_llms_pages(start, get, reader))]
        )
        await self.frontier.mark_seeded()
        self._seeded = True

    async def _make_llms_entries(self, urls: Iterable[str]) -> AsyncIterator[NewFrontierEntry]:
        for url in urls:
            twin = None
            for name in list_html_twins(url):
                twin = twin or await self.frontier.find_entry(name)
            if twin is None:
                yield self._make_entry(url, 1)
            else:
                verdict = page_fetch.make_skipped(url, OutcomeReason.DUPLICATE, f"It repeats {twin.url} in Markdown")
                yield NewFrontierEntry(canonicalize_url(url), url, 1, verdict)

    # -- pages of earlier crawls ----------------------------------------------------------------

    async def _find_unseen_pages(self) -> list[SitePage]:
        """The pages of earlier crawls that this one has not come by."""
        seen = await self.frontier.list_visited_names()
        return [
            page
            for page in await self.frontier.list_site_pages()
            if page.name not in seen and host_of(page.url) == self._site
        ]

    async def _check_missing_pages(self) -> None:
        """Nothing links to a page that is gone, so those not met are asked after, without their content."""
        for page in (await self._find_unseen_pages())[: max(self.plan.max_pages, MIN_MISSING_PAGE_CHECKS)]:
            self._report(f"Looking for {page.url}", self._crawled, self.plan.max_pages)
            status = await self.fetcher.fetch_status(page.url)
            if status is not None and 200 <= status < 300:
                await self.frontier.mark_seen(page.name)
            elif status in GONE_STATUSES:
                missing = await self._record_missing(page.name, page.url, f"HTTP {status}", status)
                spot = await self.frontier.find_entry(page.name)
                if spot is None:
                    await self.frontier.add_entries([NewFrontierEntry(page.name, page.url, LAST_DEPTH, missing)])
                else:
                    await self.frontier.close_entry(spot, missing)


def _make_crawled_page(
    url: str, outcome: PageOutcome, document: Document | None, detail: str = "", status: int = 200
) -> CrawledPage:
    if document is None:
        return CrawledPage(url, outcome, None, detail, status)
    return CrawledPage(url, outcome, None, detail, status, document.id, document.uid, document.chunk_count)


def _make_ended_page(url: str, name: str, job: Job, document: Document | None, existed: bool) -> CrawledPage:
    """What became of a page, from what became of its job."""
    if job.error is not None:
        return page_fetch.outcome_of_error(url, load_job_error(job.error))
    if job.status is JobStatus.CANCELLED:
        return page_fetch.make_skipped(url, OutcomeReason.LIMIT, "Its job was cancelled")
    if document is not None and document.source_path != name:
        return page_fetch.make_skipped(url, OutcomeReason.DUPLICATE, f"It has the same content as '{document.title}'")
    return _make_crawled_page(
        url, PageOutcome.UPDATED if existed else PageOutcome.CREATED, document, "; ".join(job.warnings)
    )
