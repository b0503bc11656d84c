"""A crawl from its first address to its last: breadth first, each page once, every outcome written down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress

from knowledge.engine.crawl import outcomes
from knowledge.engine.crawl.addresses import canonical, host_of, markdown_twins
from knowledge.engine.crawl.frontier import Books
from knowledge.engine.crawl.ingest_page import Found
from knowledge.engine.crawl.page_fetch import Landing, Visitor
from knowledge.engine.crawl.sitemaps import listed_pages, told_to_readers
from knowledge.errors import DocumentNotFound, Duplicate, KnowledgeError
from knowledge.model import Document, Job, JobStatus, new_uid
from knowledge.model.crawls import CrawledPage, Outcome, Reason
from knowledge.store.crawls.crawls import NewSpot, Plan, Spot
from knowledge.store.crawls.site_pages import SitePage

GONE = (404, 410)
TIMES_GONE = 2
"""So often in a row a page must be missing before its document goes."""
LAST = 1000
"""The depth of pages that nothing links to any more: they are looked at after all others."""
MOST_ON_THEIR_WAY = 16
FEWEST_LOOKED_FOR = 20
TRIES_BESIDES = 20

Tell = Callable[[str, int, int], None]


class Run:
    def __init__(self, plan: Plan, books: Books, visitor: Visitor, max_bytes: int, tell: Tell) -> None:
        self.plan, self.books, self.visitor = plan, books, visitor
        self._tell, self._max_bytes = tell, max_bytes
        self._site, self._seeded = plan.site, plan.seeded
        self._start = plan.url
        self._crawled = self._tries = self._bytes = 0
        self._on_their_way: set[asyncio.Task[None]] = set()
        self.limit: str | None = None
        """Why addresses were left, where it was not for max_pages."""

    async def go(self) -> None:
        await self._pick_up()
        await self._visit_all()
        if self.plan.recursive and self._site is not None:
            if await self._room():
                await self.books.add([self._new(page.url, LAST) for page in await self._unseen()])
                await self._visit_all()
            await self._look_for_the_missing()
        await self._all_in()

    async def withdraw(self) -> None:
        """Take back the pages that are still on their way in."""
        for task in self._on_their_way:
            task.cancel()
        for spot in await self.books.taking():
            if spot.page_job_uid is not None:
                await self.books.withdraw(spot.page_job_uid)

    # -- the loop -------------------------------------------------------------------------------

    async def _pick_up(self) -> None:
        """Find the pages again that were on their way in when the last process ended."""
        counts = await self.books.counts()
        self._crawled, self._bytes = counts.crawled, counts.bytes
        self._tries = counts.crawled + counts.failed
        for spot in await self.books.taking():
            job = await self.books.job(spot.page_job_uid) if spot.page_job_uid else None
            if job is None or job.status is JobStatus.CANCELLED:
                await self.books.reopen(spot)
            else:
                self._follow(spot, spot.known_as or spot.name, job, existed=False)

    async def _visit_all(self) -> None:
        while await self._room() and (spot := await self.books.next()) is not None:
            self._tell(f"Crawling {spot.url}", self._crawled, self.plan.max_pages)
            await self._visit(spot)
            if self.plan.recursive and not self._seeded and self._site is not None:
                await self._seed(self._site)

    async def _room(self) -> bool:
        """Whether another page may be fetched; waits while as many are on their way as there is room for."""
        if self._tries >= 3 * self.plan.max_pages + TRIES_BESIDES:
            self.limit = "too many addresses brought nothing"
        if self._bytes >= self._max_bytes:
            self.limit = f"the crawl has reached {self._max_bytes >> 20} MB (KNOWLEDGE_CRAWL_MAX_MB)"
        while self.limit is None:
            waiting = len(self._on_their_way)
            if self._crawled + waiting < self.plan.max_pages and waiting < MOST_ON_THEIR_WAY:
                return True
            if not waiting:
                return False
            await asyncio.wait(self._on_their_way, return_when=asyncio.FIRST_COMPLETED)
        return False

    async def _all_in(self) -> None:
        while self._on_their_way:
            self._tell("Taking in the last pages", self._crawled, self._crawled + len(self._on_their_way))
            await asyncio.wait(self._on_their_way, return_when=asyncio.FIRST_COMPLETED)

    # -- one address ----------------------------------------------------------------------------

    async def _visit(self, spot: Spot) -> None:
        self._tries += 1
        memory = await self.books.recall(spot.name)
        site = self._site if spot.depth else None
        landing = await self.visitor.land(spot.url, memory, site, self.plan.exclude)
        if isinstance(landing, CrawledPage):
            await self.books.close(spot, landing)
            return
        await self._found_site(landing)
        if landing.name != spot.name:
            if landing.moved and memory is not None:
                await self._missing(spot.name, spot.url, "It was moved for good")
            moved = await self._moved(spot, landing)
            if moved is None:
                return
            spot = moved
        if landing.unchanged and memory is not None and memory.document_id is not None:
            await self._unchanged(spot, memory)
            return
        found, links = await self.visitor.read(landing)
        await self._add_links(links, spot.depth + 1)
        if isinstance(found, CrawledPage):
            await self._not_found(spot, found)
        else:
            await self._take(spot, found)

    async def _found_site(self, landing: Landing) -> None:
        """The site is the host on which the first page was found, after its redirects."""
        if self._site is None:
            self._start = landing.fetched.url
            self._site = host_of(self._start)
            await self.books.settle_site(self._site)

    async def _moved(self, spot: Spot, landing: Landing) -> Spot | None:
        """Close an address that leads to another one; None when that is part of the crawl already."""
        url = landing.fetched.url
        new = await self.books.add([NewSpot(landing.name, url, spot.depth)])
        if not new:
            await self.books.close(spot, outcomes.skipped(spot.url, Reason.DUPLICATE, f"It leads to {url}"))
            return None
        await self.books.close(spot, outcomes.skipped(spot.url, Reason.REDIRECT, f"It leads to {url}"))
        return await self.books.spot(landing.name)

    async def _unchanged(self, spot: Spot, memory: SitePage) -> None:
        document = await self.books.document(memory.document_id or 0)
        await self.books.back(memory.name)
        await self._add_links(memory.links, spot.depth + 1)
        self._crawled += 1
        page = _page(memory.url, Outcome.UNCHANGED, document, "It has not changed since the last crawl", 304)
        await self.books.close(spot, page, memory.name)

    async def _not_found(self, spot: Spot, page: CrawledPage) -> None:
        if page.http_status in GONE:
            page = await self._missing(spot.name, page.url, f"HTTP {page.http_status}", page.http_status)
        await self.books.close(spot, page)

    async def _missing(self, name: str, url: str, why: str, status: int | None = None) -> CrawledPage:
        """A page that is not there: the first time its document stays, the second time it goes."""
        times, document = await self.books.gone(name)
        if document is None:
            return outcomes.failed(url, Reason.HTTP_STATUS, why, status)
        if times < TIMES_GONE:
            detail = f"{why}; its document stays until the page is missing once more"
            return outcomes.failed(url, Reason.GONE, detail, status)
        with suppress(DocumentNotFound):  # somebody may have been faster
            await self.books.remove(name, document.id)
        detail = f"{why}, for the second time; its document was removed"
        return CrawledPage(url, Outcome.REMOVED, Reason.GONE, detail, status)

    # -- taking in ------------------------------------------------------------------------------

    async def _take(self, spot: Spot, found: Found) -> None:
        taken, before = await self.books.before(spot, found.name)
        if taken:
            await self.books.close(spot, outcomes.skipped(found.url, Reason.DUPLICATE, f"It is {found.name}"))
            return
        self._bytes += len(found.body)
        try:
            job = await self.books.take(spot, found, new_uid())
        except Duplicate as error:
            await self._there_already(spot, found, before, error)
        except KnowledgeError as error:
            await self.books.distrust(found.name)
            await self.books.close(spot, outcomes.trouble(found.url, error))
        else:
            self._follow(spot, found.name, job, existed=before is not None)

    async def _there_already(self, spot: Spot, found: Found, before: int | None, error: Duplicate) -> None:
        if before is not None and before == error.details["document_id"]:
            self._crawled += 1
            document = await self.books.document(before)
            page = _page(found.url, Outcome.UNCHANGED, document, "Its content has not changed since the last crawl")
        else:
            twin = error.details["title"]
            page = outcomes.skipped(found.url, Reason.DUPLICATE, f"It has the same content as '{twin}'")
        await self.books.close(spot, page, found.name)

    def _follow(self, spot: Spot, name: str, job: Job, existed: bool) -> None:
        task = asyncio.create_task(self._settle(spot, name, job, existed))
        self._on_their_way.add(task)
        task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._on_their_way.discard(task)
        if not task.cancelled():
            task.exception()  # a store in trouble shows at the next step of the crawl itself

    async def _settle(self, spot: Spot, name: str, job: Job, existed: bool) -> None:
        ended = await self.books.ended(job)
        document = await self.books.document(ended.document_id) if ended.document_id else None
        page = _ending(spot.url, name, ended, document, existed)
        if page.outcome.crawled:
            self._crawled += 1
        else:
            await self.books.distrust(name)
        await self.books.close(spot, page, name)

    # -- where pages are found ------------------------------------------------------------------

    def _new(self, url: str, depth: int) -> NewSpot:
        assert self._site is not None
        return NewSpot(canonical(url), url, depth, outcomes.out_of_scope(url, self._site, self.plan.exclude))

    async def _add_links(self, links: Sequence[str], depth: int) -> None:
        if self.plan.recursive and self._site is not None:
            await self.books.add([self._new(url, depth) for url in links])

    async def _seed(self, site: str) -> None:
        """Read what the site lists by itself; what lies below the first page comes before the rest."""
        start = self._start if host_of(self._start) == site else f"https://{site}/"
        folder = start.rsplit("/", 1)[0] + "/"
        get, reader = self.visitor.get, self.visitor.reader
        listed = await listed_pages(start, await self.visitor.sitemaps(start), get, reader)
        own = sorted((url for url in listed if host_of(url) == site), key=lambda url: not url.startswith(folder))
        await self.books.add([self._new(url, 1) for url in own])
        await self.books.add([spot async for spot in self._told(await told_to_readers(start, get, reader))])
        await self.books.seeded()
        self._seeded = True

    async def _told(self, urls: Iterable[str]) -> AsyncIterator[NewSpot]:
        for url in urls:
            twin = None
            for name in markdown_twins(url):
                twin = twin or await self.books.spot(name)
            if twin is None:
                yield self._new(url, 1)
            else:
                verdict = outcomes.skipped(url, Reason.DUPLICATE, f"It repeats {twin.url} in Markdown")
                yield NewSpot(canonical(url), url, 1, verdict)

    # -- pages of earlier crawls ----------------------------------------------------------------

    async def _unseen(self) -> list[SitePage]:
        """The pages of earlier crawls that this one has not come by."""
        seen = await self.books.names()
        return [page for page in await self.books.known() if page.name not in seen and host_of(page.url) == self._site]

    async def _look_for_the_missing(self) -> None:
        """Nothing links to a page that is gone, so those not met are asked after, without their content."""
        for page in (await self._unseen())[: max(self.plan.max_pages, FEWEST_LOOKED_FOR)]:
            self._tell(f"Looking for {page.url}", self._crawled, self.plan.max_pages)
            status = await self.visitor.still_there(page.url)
            if status is not None and 200 <= status < 300:
                await self.books.back(page.name)
            elif status in GONE:
                missing = await self._missing(page.name, page.url, f"HTTP {status}", status)
                spot = await self.books.spot(page.name)
                if spot is None:
                    await self.books.add([NewSpot(page.name, page.url, LAST, missing)])
                else:
                    await self.books.close(spot, missing)


def _page(url: str, outcome: Outcome, document: Document | None, detail: str = "", status: int = 200) -> CrawledPage:
    if document is None:
        return CrawledPage(url, outcome, None, detail, status)
    return CrawledPage(url, outcome, None, detail, status, document.id, document.uid, document.chunk_count)


def _ending(url: str, name: str, job: Job, document: Document | None, existed: bool) -> CrawledPage:
    """What became of a page, from what became of its job."""
    if job.error is not None:
        return outcomes.job_trouble(url, job.error)
    if job.status is JobStatus.CANCELLED:
        return outcomes.skipped(url, Reason.LIMIT, "Its job was cancelled")
    if document is not None and document.source_path != name:
        return outcomes.skipped(url, Reason.DUPLICATE, f"It has the same content as '{document.title}'")
    return _page(url, Outcome.UPDATED if existed else Outcome.CREATED, document, "; ".join(job.warnings))
