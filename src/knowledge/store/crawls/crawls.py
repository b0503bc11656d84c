"""Crawls: requests, frontier, and the outcome of each address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, update

from knowledge.errors import CollectionNotFound, JobNotFound
from knowledge.model import Collection, Job, JobFilter, JobKind, Json, NewCollection, Ref, ResultPage, Scope
from knowledge.model.crawls import Crawl, CrawlCounts, CrawledPage, NewCrawl, OutcomeReason, PageOutcome
from knowledge.store import collections, schema
from knowledge.store.collections import CollectionStore
from knowledge.store.crawls import site_pages
from knowledge.store.crawls.site_pages import SitePage
from knowledge.store.database import Database
from knowledge.store.jobs import jobs
from knowledge.store.jobs.claim_queues import PRIORITY_BULK
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.jobs.rows import NewJob

W, P = schema.crawls.c, schema.crawl_pages.c
STATE_PENDING, STATE_TAKING, STATE_DONE = "pending", "taking", "done"
MAX_FRONTIER_ROWS = 10_000
"""Limit of stored addresses per crawl, against crawler traps."""
NAMES_PER_STATEMENT = 400

_SELECT_NEXT = (
    select(schema.crawl_pages)
    .where(P.job_id == bindparam("job_id"), P.state == STATE_PENDING)
    .order_by(P.depth, P.id)
    .limit(1)
)
_SELECT_DONE = (
    select(schema.crawl_pages).where(P.job_id == bindparam("job_id"), P.state == STATE_DONE).order_by(P.depth, P.id)
)
_RESET_UNCLEAN_STARTS = (
    update(schema.jobs)
    .where(
        schema.jobs.c.id == select(P.job_id).where(P.id == bindparam("spot_id")).scalar_subquery(),
        schema.jobs.c.unclean_starts > 0,
    )
    .values(unclean_starts=0)
)
"""A crawl that makes progress is not a poison job, so its count of unclean starts is reset."""


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """Parameters and state of a running crawl."""

    job_id: int
    collection_id: int
    url: str
    recursive: bool
    max_pages: int
    exclude: tuple[str, ...]
    site: str | None
    """Host of the crawl; None until the first page was fetched."""
    seeded: bool
    """Whether the sitemaps have been read."""


@dataclass(frozen=True, slots=True)
class FrontierEntry:
    """An address in the frontier."""

    id: int
    name: str
    url: str
    depth: int
    known_as: str | None = None
    page_job_uid: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewFrontierEntry:
    name: str
    url: str
    depth: int
    known_outcome: CrawledPage | None = None
    """Set if the address is not fetched, for example because robots.txt excludes it."""


class CrawlStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs, self._collections = JobStore(database), CollectionStore(database)

    def create(self, new: NewCrawl, host: str, scope: Scope) -> Job:
        """Queue a crawl and create its collection if none is given; job_uid is the idempotency key."""

        def work(connection: Connection) -> Job:
            known = jobs.find_by_uid(connection, new.job_uid, scope)
            if known is not None:
                return known
            collection_id = _choose_collection(connection, new, host, scope)
            payload: Json = {"url": new.url}
            job = NewJob(new.job_uid, JobKind.CRAWL, scope.owner, collection_id, new.url, payload, None, PRIORITY_BULK)
            queued = jobs.queue_job(connection, job)
            _insert_crawl(connection, queued.id, new, collection_id)
            return queued

        return self._database.write(work, is_idempotent=True)

    # -- queries --------------------------------------------------------------------------------

    def find(self, ref: Ref, scope: Scope) -> Crawl:
        job = self._jobs.find(ref, scope)
        with self._database.snapshot() as connection:
            row = connection.execute(select(schema.crawls).where(W.job_id == job.id)).first()
            if row is None:
                raise JobNotFound(f"Job '{ref}' is not a crawl", job_id=str(ref))
            pages = connection.execute(_SELECT_DONE, {"job_id": job.id}).all()
            counts = _count_pages(connection, [job.id])
        return _make_crawl(job, row, self._find_collection(row, scope), counts[job.id], tuple(map(_make_page, pages)))

    def page_of_addresses(
        self, ref: Ref, outcome: PageOutcome | None, page: int, per_page: int, scope: Scope
    ) -> ResultPage[CrawledPage]:
        """List the addresses of a crawl that are done."""
        job = self._jobs.find(ref, scope)
        conditions = [P.job_id == job.id, P.state == STATE_DONE]
        conditions += [] if outcome is None else [P.outcome == outcome]
        listed = select(schema.crawl_pages).where(*conditions).order_by(P.id)
        with self._database.snapshot() as connection:
            if connection.execute(select(W.job_id).where(W.job_id == job.id)).first() is None:
                raise JobNotFound(f"Job '{ref}' is not a crawl", job_id=str(ref))
            total = connection.execute(
                select(func.count()).select_from(schema.crawl_pages).where(*conditions)
            ).scalar_one()
            rows = connection.execute(listed.limit(per_page).offset((page - 1) * per_page)).all()
        return ResultPage(tuple(map(_make_page, rows)), total, page, per_page)

    def page(self, page: int, per_page: int, scope: Scope) -> ResultPage[Crawl]:
        listed = self._jobs.page(JobFilter(kind=JobKind.CRAWL, page=page, per_page=per_page), scope)
        identities = [job.id for job in listed.items]
        with self._database.snapshot() as connection:
            found = connection.execute(select(schema.crawls).where(W.job_id.in_(identities)))
            rows = {row.job_id: row for row in found}
            counts = _count_pages(connection, identities)
        items = [
            _make_crawl(job, rows[job.id], self._find_collection(rows[job.id], scope), counts[job.id])
            for job in listed.items
            if job.id in rows
        ]
        return ResultPage(tuple(items), listed.total, page, per_page)

    def list_pages(self, job_id: int) -> tuple[CrawledPage, ...]:
        """Return the addresses that are done, with their outcome."""
        with self._database.read() as connection:
            return tuple(map(_make_page, connection.execute(_SELECT_DONE, {"job_id": job_id})))

    def count_pages(self, job_id: int) -> CrawlCounts:
        with self._database.read() as connection:
            return _count_pages(connection, [job_id])[job_id]

    def _find_collection(self, row: Any, scope: Scope) -> Collection | None:
        try:
            return self._collections.find(row.collection_id, scope)
        except CollectionNotFound:
            return None

    # -- the frontier ---------------------------------------------------------------------------

    def begin_crawl(self, job_id: int, first_entry: NewFrontierEntry) -> CrawlPlan:
        """Resume a crawl, or start it (again) with its first address."""

        def work(connection: Connection) -> Any:
            open_ones = select(P.id).where(P.job_id == job_id, P.state != STATE_DONE).limit(1)
            if connection.execute(open_ones).first() is None:
                connection.execute(delete(schema.crawl_pages).where(P.job_id == job_id))
                values = {"site": None, "seeded": False, "bytes": 0}
                connection.execute(update(schema.crawls).where(W.job_id == job_id).values(**values))
                _add_entries(connection, job_id, [first_entry])
            return connection.execute(select(schema.crawls).where(W.job_id == job_id)).one()

        return _make_plan(self._database.write(work))

    def next_entry(self, job_id: int) -> FrontierEntry | None:
        with self._database.read() as connection:
            row = connection.execute(_SELECT_NEXT, {"job_id": job_id}).first()
        return _make_entry(row) if row else None

    def find_entry(self, job_id: int, name: str) -> FrontierEntry | None:
        with self._database.read() as connection:
            row = connection.execute(select(schema.crawl_pages).where(P.job_id == job_id, P.name == name)).first()
        return _make_entry(row) if row else None

    def list_ingesting(self, job_id: int) -> list[FrontierEntry]:
        """Return the pages whose ingest job has not ended."""
        wanted = select(schema.crawl_pages).where(P.job_id == job_id, P.state == STATE_TAKING).order_by(P.id)
        with self._database.read() as connection:
            return [_make_entry(row) for row in connection.execute(wanted)]

    def add_entries(self, job_id: int, entries: Sequence[NewFrontierEntry]) -> list[NewFrontierEntry]:
        """Add addresses to the frontier and return those that are new."""
        if not entries:
            return []
        return self._database.write(lambda connection: _add_entries(connection, job_id, entries))

    def set_site(self, job_id: int, site: str) -> None:
        self._update_crawl(job_id, site=site)

    def mark_seeded(self, job_id: int) -> None:
        self._update_crawl(job_id, seeded=True)

    def is_taken(self, job_id: int, known_as: str, besides: int) -> bool:
        """Return whether another address of this crawl has the same canonical name."""
        same = select(P.id).where(P.job_id == job_id, P.known_as == known_as, P.id != besides)
        with self._database.read() as connection:
            return connection.execute(same.limit(1)).first() is not None

    def list_visited_names(self, job_id: int) -> set[str]:
        """Return the names of all addresses that are not pending."""
        with self._database.read() as connection:
            rows = connection.execute(
                select(P.name, P.known_as).where(P.job_id == job_id, P.state != STATE_PENDING)
            ).all()
        return {name for row in rows for name in (row.name, row.known_as) if name}

    # -- outcomes -------------------------------------------------------------------------------

    def assign_page_job(
        self, plan: CrawlPlan, entry: FrontierEntry, page: SitePage, page_job_uid: UUID, size: int
    ) -> None:
        """Record the uid of the ingest job before the job is created, so that both can be matched after a crash."""

        def work(connection: Connection) -> None:
            values = {"state": STATE_TAKING, "known_as": page.name, "page_job_uid": page_job_uid}
            connection.execute(update(schema.crawl_pages).where(P.id == entry.id).values(**values))
            connection.execute(update(schema.crawls).where(W.job_id == plan.job_id).values(bytes=W.bytes + size))
            site_pages.remember_page(connection, plan.collection_id, page)

        self._database.write(work)

    def reopen_entry(self, entry: FrontierEntry) -> None:
        """Make an address pending again because its ingest job was never created."""
        values = {"state": STATE_PENDING, "known_as": None, "page_job_uid": None}
        self._database.write(lambda c: c.execute(update(schema.crawl_pages).where(P.id == entry.id).values(**values)))

    def close_entry(self, entry: FrontierEntry, page: CrawledPage, known_as: str | None = None) -> None:
        values = {**_outcome_values(page), "url": page.url} | ({"known_as": known_as} if known_as else {})

        def work(connection: Connection) -> None:
            connection.execute(update(schema.crawl_pages).where(P.id == entry.id).values(**values))
            connection.execute(_RESET_UNCLEAN_STARTS, {"spot_id": entry.id})

        self._database.write(work)

    def _update_crawl(self, job_id: int, **values: Any) -> None:
        self._database.write(lambda c: c.execute(update(schema.crawls).where(W.job_id == job_id).values(**values)))


def _choose_collection(connection: Connection, new: NewCrawl, host: str, scope: Scope) -> int:
    if new.collection is not None:
        seen = Scope(scope.owner) if isinstance(new.collection, str) else scope  # a name selects only own collections
        return collections.require_writable(connection, new.collection, seen)
    made = NewCollection(title=new.title or host, source_type="crawl", url=new.url)
    return collections.create_collection(connection, made, scope.owner)


def _insert_crawl(connection: Connection, job_id: int, new: NewCrawl, collection_id: int) -> None:
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


def _add_entries(connection: Connection, job_id: int, entries: Sequence[NewFrontierEntry]) -> list[NewFrontierEntry]:
    known = connection.execute(select(func.count()).where(P.job_id == job_id)).scalar_one()
    unique = {spot.name: spot for spot in reversed(entries)}
    present: set[str] = set()
    for names in _iter_batches(list(unique)):
        wanted = select(P.name).where(P.job_id == job_id, P.name.in_(names))
        present.update(connection.execute(wanted).scalars())
    new = [spot for spot in reversed(unique.values()) if spot.name not in present][: max(MAX_FRONTIER_ROWS - known, 0)]
    if new:
        connection.execute(insert(schema.crawl_pages), [_entry_row(job_id, spot) for spot in new])
    return new


def _iter_batches(names: list[str]) -> Iterable[list[str]]:
    return (names[first : first + NAMES_PER_STATEMENT] for first in range(0, len(names), NAMES_PER_STATEMENT))


def _entry_row(job_id: int, entry: NewFrontierEntry) -> dict[str, Any]:
    row = {"job_id": job_id, "name": entry.name, "url": entry.url, "depth": entry.depth}
    if entry.known_outcome is not None:
        return row | _outcome_values(entry.known_outcome)
    return row | {
        "state": STATE_PENDING, "outcome": None, "reason": None, "detail": "", "http_status": None,
        "document_id": None, "document_uid": None, "chunk_count": 0,
    }  # fmt: skip


def _outcome_values(page: CrawledPage) -> dict[str, Any]:
    return {
        "state": STATE_DONE,
        "outcome": page.outcome,
        "reason": page.reason,
        "detail": page.detail[:500],
        "http_status": page.http_status,
        "document_id": page.document_id,
        "document_uid": page.document_uid,
        "chunk_count": page.chunk_count,
    }


def _count_pages(connection: Connection, job_ids: Sequence[int]) -> dict[int, CrawlCounts]:
    kind = case((P.state == STATE_DONE, P.outcome), else_="pending")
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
    return {job_id: CrawlCounts(**counts) for job_id, counts in found.items()}


def _make_plan(row: Any) -> CrawlPlan:
    return CrawlPlan(
        job_id=row.job_id,
        collection_id=row.collection_id,
        url=row.url,
        recursive=row.recursive,
        max_pages=row.max_pages,
        exclude=tuple(row.exclude),
        site=row.site,
        seeded=row.seeded,
    )


def _make_entry(row: Any) -> FrontierEntry:
    return FrontierEntry(row.id, row.name, row.url, row.depth, row.known_as, row.page_job_uid)


def _make_page(row: Any) -> CrawledPage:
    return CrawledPage(
        url=row.url,
        outcome=PageOutcome(row.outcome),
        reason=OutcomeReason(row.reason) if row.reason else None,
        detail=row.detail,
        http_status=row.http_status,
        document_id=row.document_id,
        document_uid=row.document_uid,
        chunk_count=row.chunk_count,
    )


def _make_crawl(
    job: Job, row: Any, collection: Collection | None, counts: CrawlCounts, pages: tuple[CrawledPage, ...] = ()
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
