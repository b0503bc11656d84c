"""What a crawl writes down as it goes: blocking calls to the store, each behind a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from knowledge.engine.crawl.ingest_page import Found, Taker
from knowledge.errors import DocumentNotFound, JobNotFound
from knowledge.model import Document, Job
from knowledge.model.crawls import Counts, CrawledPage
from knowledge.store.crawls.crawls import NewSpot, Plan, Spot
from knowledge.store.crawls.site_pages import SitePage

if TYPE_CHECKING:
    from knowledge.engine.runtime import Parts

T = TypeVar("T")
GLANCE = 5.0


class Books:
    def __init__(self, parts: Parts, plan: Plan, owner: int) -> None:
        self._parts, self._plan = parts, plan
        self._taker = Taker(parts, plan.collection_id, owner)
        self._crawls, self._sites = parts.crawls, parts.site_pages

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    # -- the frontier ---------------------------------------------------------------------------

    async def counts(self) -> Counts:
        return await self._run(lambda: self._crawls.counts(self._plan.job_id))

    async def next(self) -> Spot | None:
        return await self._run(lambda: self._crawls.next(self._plan.job_id))

    async def spot(self, name: str) -> Spot | None:
        return await self._run(lambda: self._crawls.spot(self._plan.job_id, name))

    async def taking(self) -> list[Spot]:
        return await self._run(lambda: self._crawls.taking(self._plan.job_id))

    async def names(self) -> set[str]:
        return await self._run(lambda: self._crawls.names(self._plan.job_id))

    async def add(self, spots: Sequence[NewSpot]) -> list[NewSpot]:
        return await self._run(lambda: self._crawls.add(self._plan.job_id, spots)) if spots else []

    async def settle_site(self, site: str) -> None:
        await self._run(lambda: self._crawls.settle_site(self._plan.job_id, site))

    async def seeded(self) -> None:
        await self._run(lambda: self._crawls.seeded(self._plan.job_id))

    async def reopen(self, spot: Spot) -> None:
        await self._run(lambda: self._crawls.reopen(spot))

    async def close(self, spot: Spot, page: CrawledPage, known_as: str | None = None) -> None:
        await self._run(lambda: self._crawls.close(spot, page, known_as))

    async def before(self, spot: Spot, name: str) -> tuple[bool, int | None]:
        """Whether another address of this crawl is this very page, and the document that stands there already."""
        return await self._run(
            lambda: (
                self._crawls.is_taken(self._plan.job_id, name, spot.id),
                self._sites.document_at(self._plan.collection_id, name),
            )
        )

    # -- pages on their way in ------------------------------------------------------------------

    async def take(self, spot: Spot, found: Found, job_uid: UUID) -> Job:
        """Hand a page to a job; what is remembered of it is written with it. May raise Duplicate."""

        def work() -> Job:
            page = SitePage(found.name, found.url, found.etag, found.last_modified, found.links)
            self._crawls.hand_over(self._plan, spot, page, job_uid, len(found.body))
            return self._taker.take(found, job_uid)

        taking = asyncio.ensure_future(self._run(work))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:  # half a hand-over is none: it ends, and is then withdrawn
            await asyncio.gather(taking, return_exceptions=True)
            raise

    async def job(self, job_uid: UUID) -> Job | None:
        try:
            return await self._run(lambda: self._taker.job(job_uid))
        except JobNotFound:
            return None

    async def ended(self, job: Job) -> Job:
        """The job of a page when it has come to its end."""
        with self._parts.board.watch(job.id) as watch:
            while True:
                job = await self._run(lambda: self._taker.job(job.id))  # noqa: B023
                if job.status.ended:
                    return job
                await watch.changed(GLANCE)

    async def withdraw(self, job_uid: UUID) -> None:
        try:
            await self._run(lambda: self._taker.withdraw(job_uid))
        except JobNotFound:
            return

    async def document(self, ref: int) -> Document | None:
        try:
            return await self._run(lambda: self._taker.document(ref))
        except DocumentNotFound:
            return None

    # -- what is remembered between crawls ------------------------------------------------------

    async def recall(self, name: str) -> SitePage | None:
        return await self._run(lambda: self._sites.find(self._plan.collection_id, name))

    async def known(self) -> list[SitePage]:
        return await self._run(lambda: self._sites.all(self._plan.collection_id))

    async def distrust(self, name: str) -> None:
        await self._run(lambda: self._sites.distrust(self._plan.collection_id, name))

    async def back(self, name: str) -> None:
        await self._run(lambda: self._sites.back(self._plan.collection_id, name))

    async def gone(self, name: str) -> tuple[int, Document | None]:
        """How often in a row a page was not there, and the document that it was."""

        def work() -> tuple[int, Document | None]:
            times, document = self._sites.gone(self._plan.collection_id, name), self._taker.at(name)
            return times, document

        return await self._run(work)

    async def remove(self, name: str, document_id: int) -> None:
        def work() -> None:
            self._taker.remove(document_id)
            self._sites.forget(self._plan.collection_id, name)

        await self._run(work)
