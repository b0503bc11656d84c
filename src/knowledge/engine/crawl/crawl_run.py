"""Runs one crawl: breadth first, each page once, with a stored outcome for every URL."""

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
from knowledge.error_codes import load_job_error
from knowledge.errors import DocumentNotFound, Duplicate, KnowledgeError, OriginalsUnavailable
from knowledge.model import Document, Job, JobStatus, new_uid
from knowledge.model.crawls import CrawledPage, OutcomeReason, PageOutcome
from knowledge.store.crawls.crawls import CrawlPlan, FrontierEntry, NewFrontierEntry
from knowledge.store.crawls.site_pages import SitePage

GONE_STATUSES = (404, 410)
# Two in a row, because a page that is missing once may be a temporary failure of the site.
MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 30.0
MISSING_CRAWLS_BEFORE_REMOVAL = 2
LAST_DEPTH = 1000
"""Depth of known pages that no page links to any more, which sorts them last."""
MAX_PAGES_IN_INGEST = 16
MIN_MISSING_PAGE_CHECKS = 20
EXTRA_TRIES = 20

ReportStep = Callable[[str, int, int], None]


class CrawlRun:
    def __init__(
        self, plan: CrawlPlan, frontier: Frontier, fetcher: PageFetcher, max_bytes: int, report: ReportStep
    ) -> None:
        self.plan, self.frontier, self.fetcher = plan, frontier, fetcher
        self._report, self._max_bytes = report, max_bytes
        self._site, self._seeded = plan.site, plan.seeded
        self._start = plan.url
        self._crawled = self._tries = self._bytes = 0
        self._ingesting: set[asyncio.Task[None]] = set()
        self.stop_reason: str | None = None
        """Why the crawl ended before max_pages."""

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
        """Cancel the page jobs that have not ended."""
        for task in self._ingesting:
            task.cancel()
        for entry in await self.frontier.list_ingesting():
            if entry.page_job_uid is not None:
                await self.frontier.withdraw_job(entry.page_job_uid)

    # -- main loop ------------------------------------------------------------------------------

    async def _resume_pages(self) -> None:
        """Watch the page jobs that had not ended when the last process ended."""
        counts = await self.frontier.count_pages()
        self._crawled, self._bytes = counts.crawled, counts.bytes
        self._tries = counts.crawled + counts.failed
        for entry in await self.frontier.list_ingesting():
            job = await self.frontier.find_job(entry.page_job_uid) if entry.page_job_uid else None
            if job is None or job.status is JobStatus.CANCELLED:
                await self.frontier.reopen_entry(entry)
            else:
                self._watch_page_job(entry, entry.known_as or entry.name, job, existed=False)

    async def _visit_pending(self) -> None:
        while await self._wait_for_capacity() and (entry := await self.frontier.next_entry()) is not None:
            self._report(f"Crawling {entry.url}", self._crawled, self.plan.max_pages)
            await self._visit_address(entry)
            if self.plan.recursive and not self._seeded and self._site is not None:
                await self._seed_from_sitemaps(self._site)

    async def _wait_for_capacity(self) -> bool:
        """Return whether another page may be fetched; wait while MAX_PAGES_IN_INGEST pages are being ingested."""
        max_tries = 3 * self.plan.max_pages + EXTRA_TRIES
        if self._tries >= max_tries:
            self.stop_reason = f"{max_tries} URLs were tried, and too few of them were pages"
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
            self._report("Ingesting the last pages", self._crawled, self._crawled + len(self._ingesting))
            await asyncio.wait(self._ingesting, return_when=asyncio.FIRST_COMPLETED)

    # -- one URL --------------------------------------------------------------------------------

    async def _visit_address(self, entry: FrontierEntry) -> None:
        self._tries += 1
        known_page = await self.frontier.find_site_page(entry.name)
        site = self._site if entry.depth else None
        result = await self.fetcher.follow_redirects(entry.url, known_page, site, self.plan.exclude)
        if isinstance(result, CrawledPage):
            await self.frontier.close_entry(entry, result)
            return
        await self._set_site(result)
        if result.name != entry.name:
            if result.moved_permanently and known_page is not None:
                await self._record_missing(entry.name, entry.url, "Moved permanently")
            moved = await self._follow_move(entry, result)
            if moved is None:
                return
            entry = moved
        if result.is_unchanged and known_page is not None and known_page.document_id is not None:
            await self._close_unchanged(entry, known_page)
            return
        found, links = await self.fetcher.read_page(result)
        await self._add_links(links, entry.depth + 1)
        if isinstance(found, CrawledPage):
            await self._close_unusable(entry, found)
        else:
            await self._ingest_page(entry, found)

    async def _set_site(self, result: RedirectResult) -> None:
        """Take the host of the first page, after its redirects, as the site."""
        if self._site is None:
            self._start = result.fetched.url
            self._site = host_of(self._start)
            await self.frontier.set_site(self._site)

    async def _follow_move(self, entry: FrontierEntry, result: RedirectResult) -> FrontierEntry | None:
        """Close a redirected entry and return the entry of its target; None if the target is in the crawl already."""
        url = result.fetched.url
        new = await self.frontier.add_entries([NewFrontierEntry(result.name, url, entry.depth)])
        if not new:
            await self.frontier.close_entry(
                entry, page_fetch.make_skipped(entry.url, OutcomeReason.DUPLICATE, f"Redirects to {url}")
            )
            return None
        await self.frontier.close_entry(
            entry, page_fetch.make_skipped(entry.url, OutcomeReason.REDIRECT, f"Redirects to {url}")
        )
        return await self.frontier.find_entry(result.name)

    async def _close_unchanged(self, entry: FrontierEntry, known_page: SitePage) -> None:
        document = await self.frontier.find_document(known_page.document_id or 0)
        await self.frontier.mark_seen(known_page.name)
        await self._add_links(known_page.links, entry.depth + 1)
        self._crawled += 1
        page = _make_crawled_page(
            known_page.url, PageOutcome.UNCHANGED, document, "Not modified since the last crawl", 304
        )
        await self.frontier.close_entry(entry, page, known_page.name)

    async def _close_unusable(self, entry: FrontierEntry, page: CrawledPage) -> None:
        if page.http_status in GONE_STATUSES:
            page = await self._record_missing(entry.name, page.url, f"HTTP {page.http_status}", page.http_status)
        await self.frontier.close_entry(entry, page)

    async def _record_missing(self, name: str, url: str, why: str, status: int | None = None) -> CrawledPage:
        """Count a missing page, and remove its document when it is missing for the second crawl in a row."""
        times, document = await self.frontier.mark_missing(name)
        if document is None:
            return page_fetch.make_failed(url, OutcomeReason.HTTP_STATUS, why, status)
        if times < MISSING_CRAWLS_BEFORE_REMOVAL:
            detail = f"{why}; its document is removed if the page is missing in the next crawl too"
            return page_fetch.make_failed(url, OutcomeReason.GONE, detail, status)
        with suppress(DocumentNotFound):  # a concurrent request may have removed it
            await self.frontier.remove_page(name, document.id)
        detail = f"{why}, in {times} crawls in a row; its document was removed"
        return CrawledPage(url, PageOutcome.REMOVED, OutcomeReason.GONE, detail, status)

    # -- ingesting pages ------------------------------------------------------------------------

    async def _ingest_page(self, entry: FrontierEntry, found: FetchedPage) -> None:
        taken, before = await self.frontier.find_earlier(entry, found.name)
        if taken:
            await self.frontier.close_entry(
                entry, page_fetch.make_skipped(found.url, OutcomeReason.DUPLICATE, f"Same page as {found.name}")
            )
            return
        self._bytes += len(found.body)
        try:
            job = await self._queue_page(entry, found)
        except Duplicate as error:
            await self._close_duplicate(entry, found, before, error)
        except KnowledgeError as error:
            await self.frontier.forget_validators(found.name)
            await self.frontier.close_entry(entry, page_fetch.outcome_of_error(found.url, error))
        else:
            self._watch_page_job(entry, found.name, job, existed=before is not None)

    async def _queue_page(self, entry: FrontierEntry, found: FetchedPage) -> Job:
        """Queue a page; while the bucket of originals does not answer, try again with exponential backoff."""
        uid, wait = new_uid(), MIN_BACKOFF_SECONDS
        while True:
            try:
                return await self.frontier.ingest_page(entry, found, uid)
            except OriginalsUnavailable:
                await asyncio.sleep(wait)
                wait = min(2 * wait, MAX_BACKOFF_SECONDS)

    async def _close_duplicate(
        self, entry: FrontierEntry, found: FetchedPage, before: int | None, error: Duplicate
    ) -> None:
        if before is not None and before == error.details["document_id"]:
            self._crawled += 1
            document = await self.frontier.find_document(before)
            page = _make_crawled_page(found.url, PageOutcome.UNCHANGED, document, "Same content as in the last crawl")
        else:
            twin = error.details["title"]
            page = page_fetch.make_skipped(found.url, OutcomeReason.DUPLICATE, f"Same content as '{twin}'")
        await self.frontier.close_entry(entry, page, found.name)

    def _watch_page_job(self, entry: FrontierEntry, name: str, job: Job, existed: bool) -> None:
        task = asyncio.create_task(self._close_when_ended(entry, name, job, existed))
        self._ingesting.add(task)
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._ingesting.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved to avoid a warning; a failing store also fails the next step of the crawl

    async def _close_when_ended(self, entry: FrontierEntry, name: str, job: Job, existed: bool) -> None:
        ended = await self.frontier.wait_for_job(job)
        document = await self.frontier.find_document(ended.document_id) if ended.document_id else None
        page = _make_ended_page(entry.url, name, ended, document, existed)
        if page.outcome.is_crawled:
            self._crawled += 1
        else:
            await self.frontier.forget_validators(name)
        await self.frontier.close_entry(entry, page, name)

    # -- finding pages --------------------------------------------------------------------------

    def _make_entry(self, url: str, depth: int) -> NewFrontierEntry:
        assert self._site is not None
        return NewFrontierEntry(
            canonicalize_url(url), url, depth, page_fetch.check_scope(url, self._site, self.plan.exclude)
        )

    async def _add_links(self, links: Sequence[str], depth: int) -> None:
        if self.plan.recursive and self._site is not None:
            await self.frontier.add_entries([self._make_entry(url, depth) for url in links])

    async def _seed_from_sitemaps(self, site: str) -> None:
        """Add the pages of the sitemaps and llms.txt; pages in the folder of the start page come first."""
        start = self._start if host_of(self._start) == site else f"https://{site}/"
        folder = start.rsplit("/", 1)[0] + "/"
        get, reader = self.fetcher.fetch_file, self.fetcher.reader
        listed = await list_sitemap_pages(start, await self.fetcher.list_sitemaps(start), get, reader)
        own = sorted((url for url in listed if host_of(url) == site), key=lambda url: not url.startswith(folder))
        await self.frontier.add_entries([self._make_entry(url, 1) for url in own])
        await self.frontier.add_entries(
            [entry async for entry in self._make_llms_entries(await list_llms_pages(start, get, reader))]
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
                skipped = page_fetch.make_skipped(url, OutcomeReason.DUPLICATE, f"Markdown version of {twin.url}")
                yield NewFrontierEntry(canonicalize_url(url), url, 1, skipped)

    # -- pages of earlier crawls ----------------------------------------------------------------

    async def _find_unseen_pages(self) -> list[SitePage]:
        """Return the pages of earlier crawls that this crawl has not visited."""
        seen = await self.frontier.list_visited_names()
        return [
            page
            for page in await self.frontier.list_site_pages()
            if page.name not in seen and host_of(page.url) == self._site
        ]

    async def _check_missing_pages(self) -> None:
        """Send a HEAD request for each known page that was not visited, because deleted pages are rarely linked."""
        for page in (await self._find_unseen_pages())[: max(self.plan.max_pages, MIN_MISSING_PAGE_CHECKS)]:
            self._report(f"Checking {page.url}", self._crawled, self.plan.max_pages)
            status = await self.fetcher.fetch_status(page.url)
            if status is not None and 200 <= status < 300:
                await self.frontier.mark_seen(page.name)
            elif status in GONE_STATUSES:
                missing = await self._record_missing(page.name, page.url, f"HTTP {status}", status)
                entry = await self.frontier.find_entry(page.name)
                if entry is None:
                    await self.frontier.add_entries([NewFrontierEntry(page.name, page.url, LAST_DEPTH, missing)])
                else:
                    await self.frontier.close_entry(entry, missing)


def _make_crawled_page(
    url: str, outcome: PageOutcome, document: Document | None, detail: str = "", status: int = 200
) -> CrawledPage:
    if document is None:
        return CrawledPage(url, outcome, None, detail, status)
    return CrawledPage(url, outcome, None, detail, status, document.id, document.uid, document.chunk_count)


def _make_ended_page(url: str, name: str, job: Job, document: Document | None, existed: bool) -> CrawledPage:
    """Return the outcome of a page from its ended job."""
    if job.error is not None:
        return page_fetch.outcome_of_error(url, load_job_error(job.error))
    if job.status is JobStatus.CANCELLED:
        return page_fetch.make_skipped(url, OutcomeReason.LIMIT, "Its job was cancelled")
    if document is not None and document.source_path != name:
        return page_fetch.make_skipped(url, OutcomeReason.DUPLICATE, f"Same content as '{document.title}'")
    return _make_crawled_page(
        url, PageOutcome.UPDATED if existed else PageOutcome.CREATED, document, "; ".join(job.warnings)
    )
