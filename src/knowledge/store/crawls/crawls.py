"""Crawls: what was asked for, the frontier, and what became of each address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, update

from knowledge.errors import CollectionNotFound, JobNotFound
from knowledge.model import Collection, Job, JobFilter, JobKind, Json, NewCollection, Page, Ref, Scope
from knowledge.model.crawls import Counts, Crawl, CrawledPage, NewCrawl, Outcome, Reason
from knowledge.store import collections, schema
from knowledge.store.collections import CollectionStore
from knowledge.store.crawls import site_pages
from knowledge.store.crawls.site_pages import SitePage
from knowledge.store.database import Database
from knowledge.store.jobs import jobs
from knowledge.store.jobs.jobs import BULK, JobStore
from knowledge.store.jobs.rows import NewJob

W, P = schema.crawls.c, schema.crawl_pages.c
PENDING, TAKING, DONE = "pending", "taking", "done"
MOST_ROWS = 10_000
"""So many addresses are kept of one crawl; traps have more."""
BATCH = 400

_NEXT = (
    select(schema.crawl_pages)
    .where(P.job_id == bindparam("job_id"), P.state == PENDING)
    .order_by(P.depth, P.id)
    .limit(1)
)


_ENDED = select(schema.crawl_pages).where(P.job_id == bindparam("job_id"), P.state == DONE).order_by(P.depth, P.id)
_PROGRESSED = (
    update(schema.jobs)
    .where(
        schema.jobs.c.id == select(P.job_id).where(P.id == bindparam("spot_id")).scalar_subquery(),
        schema.jobs.c.unclean_starts > 0,
    )
    .values(unclean_starts=0)
)
"""A crawl that gets on is not what ended the server: it goes on with its next address after every start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A crawl under way, as its runner needs it."""

    job_id: int
    collection_id: int
    url: str
    recursive: bool
    max_pages: int
    exclude: tuple[str, ...]
    site: str | None
    """The host that the crawl keeps to; None until the first page has been found."""
    seeded: bool
    """Sitemaps have been read."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One address of the frontier."""

    id: int
    name: str
    url: str
    depth: int
    known_as: str | None = None
    page_job_uid: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewSpot:
    name: str
    url: str
    depth: int
    verdict: CrawledPage | None = None
    """Set where it is known beforehand that the address is not fetched."""


class CrawlStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs, self._collections = JobStore(database), CollectionStore(database)

    def create(self, new: NewCrawl, host: str, scope: Scope) -> Job:
        """Queue a crawl, and make its collection where none was named; the same uid again is the same crawl."""

        def work(connection: Connection) -> Job:
            known = jobs.find_uid(connection, new.job_uid, scope)
            if known is not None:
                return known
            collection_id = _collection_for(connection, new, host, scope)
            payload: Json = {"url": new.url}
            job = NewJob(new.job_uid, JobKind.CRAWL, scope.owner, collection_id, new.url, payload, None, BULK)
            queued = jobs.queue(connection, job)
            _insert(connection, queued.id, new, collection_id)
            return queued

        return self._database.write(work)

    # -- looking --------------------------------------------------------------------------------

    def find(self, ref: Ref, scope: Scope) -> Crawl:
        job = self._jobs.find(ref, scope)
        with self._database.snapshot() as connection:
            row = connection.execute(select(schema.crawls).where(W.job_id == job.id)).first()
            if row is None:
                raise JobNotFound(f"Job '{ref}' is not a crawl", job_id=str(ref))
            pages = connection.execute(_ENDED, {"job_id": job.id}).all()
            counts = _counts(connection, [job.id])
        return _crawl(job, row, self._collection(row, scope), counts[job.id], tuple(map(_page, pages)))

    def page(self, page: int, per_page: int, scope: Scope) -> Page[Crawl]:
        listed = self._jobs.page(JobFilter(kind=JobKind.CRAWL, page=page, per_page=per_page), scope)
        identities = [job.id for job in listed.items]
        with self._database.snapshot() as connection:
            found = connection.execute(select(schema.crawls).where(W.job_id.in_(identities)))
            rows = {row.job_id: row for row in found}
            counts = _counts(connection, identities)
        items = [
            _crawl(job, rows[job.id], self._collection(rows[job.id], scope), counts[job.id])
            for job in listed.items
            if job.id in rows
        ]
        return Page(tuple(items), listed.total, page, per_page)

    def pages(self, job_id: int) -> tuple[CrawledPage, ...]:
        """What became of each address so far."""
        with self._database.read() as connection:
            return tuple(map(_page, connection.execute(_ENDED, {"job_id": job_id})))

    def counts(self, job_id: int) -> Counts:
        with self._database.read() as connection:
            return _counts(connection, [job_id])[job_id]

    def _collection(self, row: Any, scope: Scope) -> Collection | None:
        try:
            return self._collections.find(row.collection_id, scope)
        except CollectionNotFound:
            return None

    # -- the frontier ---------------------------------------------------------------------------

    def begin(self, job_id: int, first: NewSpot) -> Plan:
        """Go on where a crawl was, or start it with its first address; one that had ended starts anew."""

        def work(connection: Connection) -> Any:
            open_ones = select(P.id).where(P.job_id == job_id, P.state != DONE).limit(1)
            if connection.execute(open_ones).first() is None:
                connection.execute(delete(schema.crawl_pages).where(P.job_id == job_id))
                values = {"site": None, "seeded": False, "bytes": 0}
                connection.execute(update(schema.crawls).where(W.job_id == job_id).values(**values))
                _add(connection, job_id, [first])
            return connection.execute(select(schema.crawls).where(W.job_id == job_id)).one()

        return _plan(self._database.write(work))

    def next(self, job_id: int) -> Spot | None:
        with self._database.read() as connection:
            row = connection.execute(_NEXT, {"job_id": job_id}).first()
        return _spot(row) if row else None

    def spot(self, job_id: int, name: str) -> Spot | None:
        with self._database.read() as connection:
            row = connection.execute(select(schema.crawl_pages).where(P.job_id == job_id, P.name == name)).first()
        return _spot(row) if row else None

    def taking(self, job_id: int) -> list[Spot]:
        """The pages that were handed to a job of their own and have not come back."""
        wanted = select(schema.crawl_pages).where(P.job_id == job_id, P.state == TAKING).order_by(P.id)
        with self._database.read() as connection:
            return [_spot(row) for row in connection.execute(wanted)]

    def add(self, job_id: int, spots: Sequence[NewSpot]) -> list[NewSpot]:
        """Put new addresses on the frontier; answers those that were not there yet."""
        if not spots:
            return []
        return self._database.write(lambda connection: _add(connection, job_id, spots))

    def settle_site(self, job_id: int, site: str) -> None:
        self._set(job_id, site=site)

    def seeded(self, job_id: int) -> None:
        self._set(job_id, seeded=True)

    def is_taken(self, job_id: int, known_as: str, besides: int) -> bool:
        """Whether another address of this crawl has turned out to be this very page."""
        same = select(P.id).where(P.job_id == job_id, P.known_as == known_as, P.id != besides)
        with self._database.read() as connection:
            return connection.execute(same.limit(1)).first() is not None

    def names(self, job_id: int) -> set[str]:
        """Every address of this crawl that has been dealt with."""
        with self._database.read() as connection:
            rows = connection.execute(select(P.name, P.known_as).where(P.job_id == job_id, P.state != PENDING)).all()
        return {name for row in rows for name in (row.name, row.known_as) if name}

    # -- what becomes of an address -------------------------------------------------------------

    def hand_over(self, plan: Plan, spot: Spot, page: SitePage, page_job_uid: UUID, size: int) -> None:
        """Note the job that takes a page in, before it is made: after a kill the two find each other again."""

        def work(connection: Connection) -> None:
            values = {"state": TAKING, "known_as": page.name, "page_job_uid": page_job_uid}
            connection.execute(update(schema.crawl_pages).where(P.id == spot.id).values(**values))
            connection.execute(update(schema.crawls).where(W.job_id == plan.job_id).values(bytes=W.bytes + size))
            site_pages.remember(connection, plan.collection_id, page)

        self._database.write(work)

    def reopen(self, spot: Spot) -> None:
        """The job of a page was never made: fetch it again."""
        values = {"state": PENDING, "known_as": None, "page_job_uid": None}
        self._database.write(lambda c: c.execute(update(schema.crawl_pages).where(P.id == spot.id).values(**values)))

    def close(self, spot: Spot, page: CrawledPage, known_as: str | None = None) -> None:
        values = {**_verdict(page), "url": page.url} | ({"known_as": known_as} if known_as else {})

        def work(connection: Connection) -> None:
            connection.execute(update(schema.crawl_pages).where(P.id == spot.id).values(**values))
            connection.execute(_PROGRESSED, {"spot_id": spot.id})

        self._database.write(work)

    def _set(self, job_id: int, **values: Any) -> None:
        self._database.write(lambda c: c.execute(update(schema.crawls).where(W.job_id == job_id).values(**values)))


def _collection_for(connection: Connection, new: NewCrawl, host: str, scope: Scope) -> int:
    if new.collection is not None:
        seen = Scope(scope.owner) if isinstance(new.collection, str) else scope  # a name is one's own
        return collections.require_writable(connection, new.collection, seen)
    made = NewCollection(title=new.title or host, source_type="crawl", url=new.url)
    return collections.create(connection, made, scope.owner)


def _insert(connection: Connection, job_id: int, new: NewCrawl, collection_id: int) -> None:
    C = schema.collections.c
    uid = connection.execute(select(C.uid).where(C.id == collection_id)).scalar_one()
    connection.execute(
        insert(schema.crawls).values(
            job_id=job_id,
            collection_id=collection_id,
            collection_uid=uid,
            url=new.url,
            recursive=new.recursive,
            max_pages=new.max_pages,
            exclude=list(new.exclude),
            seeded=False,
            bytes=0,
        )
    )


def _add(connection: Connection, job_id: int, spots: Sequence[NewSpot]) -> list[NewSpot]:
    known = connection.execute(select(func.count()).where(P.job_id == job_id)).scalar_one()
    unique = {spot.name: spot for spot in reversed(spots)}
    present: set[str] = set()
    for names in _batches(list(unique)):
        wanted = select(P.name).where(P.job_id == job_id, P.name.in_(names))
        present.update(connection.execute(wanted).scalars())
    new = [spot for spot in reversed(unique.values()) if spot.name not in present][: max(MOST_ROWS - known, 0)]
    if new:
        connection.execute(insert(schema.crawl_pages), [_row(job_id, spot) for spot in new])
    return new


def _batches(names: list[str]) -> Iterable[list[str]]:
    return (names[first : first + BATCH] for first in range(0, len(names), BATCH))


def _row(job_id: int, spot: NewSpot) -> dict[str, Any]:
    row = {"job_id": job_id, "name": spot.name, "url": spot.url, "depth": spot.depth}
    if spot.verdict is not None:
        return row | _verdict(spot.verdict)
    return row | {
        "state": PENDING, "outcome": None, "reason": None, "detail": "", "http_status": None,
        "document_id": None, "document_uid": None, "chunk_count": 0,
    }  # fmt: skip


def _verdict(page: CrawledPage) -> dict[str, Any]:
    return {
        "state": DONE,
        "outcome": page.outcome,
        "reason": page.reason,
        "detail": page.detail[:500],
        "http_status": page.http_status,
        "document_id": page.document_id,
        "document_uid": page.document_uid,
        "chunk_count": page.chunk_count,
    }


def _counts(connection: Connection, job_ids: Sequence[int]) -> dict[int, Counts]:
    kind = case((P.state == DONE, P.outcome), else_="pending")
    counted = (
        select(P.job_id, kind.label("kind"), func.count().label("pages"), func.sum(P.chunk_count).label("chunks"))
        .where(P.job_id.in_(job_ids))
        .group_by(P.job_id, kind)
    )
    found: dict[int, dict[str, int]] = {job_id: {"chunks": 0} for job_id in job_ids}
    for row in connection.execute(counted):
        found[row.job_id][row.kind] = row.pages
        found[row.job_id]["chunks"] += row.chunks
    for row in connection.execute(select(W.job_id, W.bytes).where(W.job_id.in_(job_ids))):
        found[row.job_id]["bytes"] = row.bytes
    return {job_id: Counts(**counts) for job_id, counts in found.items()}


def _plan(row: Any) -> Plan:
    return Plan(
        job_id=row.job_id,
        collection_id=row.collection_id,
        url=row.url,
        recursive=row.recursive,
        max_pages=row.max_pages,
        exclude=tuple(row.exclude),
        site=row.site,
        seeded=row.seeded,
    )


def _spot(row: Any) -> Spot:
    return Spot(row.id, row.name, row.url, row.depth, row.known_as, row.page_job_uid)


def _page(row: Any) -> CrawledPage:
    return CrawledPage(
        url=row.url,
        outcome=Outcome(row.outcome),
        reason=Reason(row.reason) if row.reason else None,
        detail=row.detail,
        http_status=row.http_status,
        document_id=row.document_id,
        document_uid=row.document_uid,
        chunk_count=row.chunk_count,
    )


def _crawl(
    job: Job, row: Any, collection: Collection | None, counts: Counts, pages: tuple[CrawledPage, ...] = ()
) -> Crawl:
    return Crawl(
        job=job,
        url=row.url,
        collection=collection,
        collection_uid=row.collection_uid,
        recursive=row.recursive,
        max_pages=row.max_pages,
        exclude=tuple(row.exclude),
        counts=counts,
        pages=pages,
    )
