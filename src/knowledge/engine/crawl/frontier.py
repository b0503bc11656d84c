"""The crawl frontier: URLs to visit and their outcomes, stored so that a crawl resumes after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from knowledge.engine.crawl.ingest_page import CrawlStores, FetchedPage, PageIngester
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.errors import DocumentNotFound, JobNotFound
from knowledge.model import Document, Job
from knowledge.model.crawls import CrawlCounts, CrawledPage
from knowledge.store.crawls.crawls import CrawlPlan, FrontierEntry, NewFrontierEntry
from knowledge.store.crawls.site_pages import SitePage

T = TypeVar("T")
JOB_POLL_SECONDS = 5.0


class Frontier:
    def __init__(self, plan: CrawlPlan, stores: CrawlStores, progress: ProgressTracker, ingester: PageIngester) -> None:
        self._plan, self._progress, self._ingester = plan, progress, ingester
        self._crawls, self._sites = stores.crawls, stores.site_pages

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    # -- the frontier ---------------------------------------------------------------------------

    async def count_pages(self) -> CrawlCounts:
        return await self._run_in_thread(lambda: self._crawls.count_pages(self._plan.job_id))

    async def next_entry(self) -> FrontierEntry | None:
        return await self._run_in_thread(lambda: self._crawls.next_entry(self._plan.job_id))

    async def find_entry(self, name: str) -> FrontierEntry | None:
        return await self._run_in_thread(lambda: self._crawls.find_entry(self._plan.job_id, name))

    async def list_ingesting(self) -> list[FrontierEntry]:
        return await self._run_in_thread(lambda: self._crawls.list_ingesting(self._plan.job_id))

    async def list_visited_names(self) -> set[str]:
        return await self._run_in_thread(lambda: self._crawls.list_visited_names(self._plan.job_id))

    async def add_entries(self, entries: Sequence[NewFrontierEntry]) -> list[NewFrontierEntry]:
        return (
            await self._run_in_thread(lambda: self._crawls.add_entries(self._plan.job_id, entries)) if entries else []
        )

    async def set_site(self, site: str) -> None:
        await self._run_in_thread(lambda: self._crawls.set_site(self._plan.job_id, site))

    async def mark_seeded(self) -> None:
        await self._run_in_thread(lambda: self._crawls.mark_seeded(self._plan.job_id))

    async def reopen_entry(self, entry: FrontierEntry) -> None:
        await self._run_in_thread(lambda: self._crawls.reopen_entry(entry))

    async def close_entry(self, entry: FrontierEntry, page: CrawledPage, known_as: str | None = None) -> None:
        await self._run_in_thread(lambda: self._crawls.close_entry(entry, page, known_as))

    async def find_earlier(self, entry: FrontierEntry, name: str) -> tuple[bool, int | None]:
        """Return whether another entry of this crawl has this canonical URL, and the document stored under it."""
        return await self._run_in_thread(
            lambda: (
                self._crawls.is_taken(self._plan.job_id, name, entry.id),
                self._sites.find_document_id(self._plan.collection_id, name),
            )
        )

    # -- ingesting pages ------------------------------------------------------------------------

    async def ingest_page(self, entry: FrontierEntry, fetched_page: FetchedPage, job_uid: UUID) -> Job:
        """Store the page's HTTP validators and links, and queue its job; raises Duplicate for known content."""

        def work() -> Job:
            page = SitePage(
                fetched_page.name, fetched_page.url, fetched_page.etag, fetched_page.last_modified, fetched_page.links
            )
            self._crawls.assign_page_job(self._plan, entry, page, job_uid, len(fetched_page.body))
            return self._ingester.queue_page(fetched_page, job_uid)

        handover = asyncio.ensure_future(self._run_in_thread(work))
        try:
            return await asyncio.shield(handover)
        except asyncio.CancelledError:  # let the thread finish, so that the cancelled crawl can withdraw the job
            await asyncio.gather(handover, return_exceptions=True)
            raise

    async def find_job(self, job_uid: UUID) -> Job | None:
        try:
            return await self._run_in_thread(lambda: self._ingester.find_job(job_uid))
        except JobNotFound:
            return None

    async def wait_for_job(self, job: Job) -> Job:
        """Wait until a page's job has ended and return it."""
        with self._progress.watch(job.id) as watch:
            while True:
                job = await self._run_in_thread(lambda: self._ingester.find_job(job.id))  # noqa: B023
                if job.status.has_ended:
                    return job
                await watch.wait_for_change(JOB_POLL_SECONDS)

    async def withdraw_job(self, job_uid: UUID) -> None:
        try:
            await self._run_in_thread(lambda: self._ingester.withdraw_job(job_uid))
        except JobNotFound:
            return

    async def find_document(self, ref: int) -> Document | None:
        try:
            return await self._run_in_thread(lambda: self._ingester.find_document(ref))
        except DocumentNotFound:
            return None

    # -- pages of earlier crawls ----------------------------------------------------------------

    async def find_site_page(self, name: str) -> SitePage | None:
        return await self._run_in_thread(lambda: self._sites.find(self._plan.collection_id, name))

    async def list_site_pages(self) -> list[SitePage]:
        return await self._run_in_thread(lambda: self._sites.list_pages(self._plan.collection_id))

    async def forget_validators(self, name: str) -> None:
        await self._run_in_thread(lambda: self._sites.forget_validators(self._plan.collection_id, name))

    async def mark_seen(self, name: str) -> None:
        await self._run_in_thread(lambda: self._sites.mark_seen(self._plan.collection_id, name))

    async def mark_missing(self, name: str) -> tuple[int, Document | None]:
        """Return for how many crawls in a row a page was missing, and its document."""

        def work() -> tuple[int, Document | None]:
            times, document = (
                self._sites.mark_missing(self._plan.collection_id, name),
                self._ingester.find_document_at(name),
            )
            return times, document

        return await self._run_in_thread(work)

    async def remove_page(self, name: str, document_id: int) -> None:
        def work() -> None:
            self._ingester.remove_document(document_id)
            self._sites.forget_page(self._plan.collection_id, name)

        await self._run_in_thread(work)
