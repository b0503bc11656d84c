"""Jobs: rows that are queued, claimed, and ended. Progress within a job lives in memory and not here."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, func, insert, literal_column, select, update

from knowledge.errors import Cancelled, JobNotFound, NotNow
from knowledge.model import Job, JobError, JobFilter, JobKind, JobStatus, Page, Ref, Scope
from knowledge.store import schema, traces
from knowledge.store.accounts.accounts import require_owner
from knowledge.store.database import Database
from knowledge.store.jobs.rows import (
    MAX_DEATHS,
    MAX_UNCLEAN_STARTS,
    Claim,
    Finished,
    NewJob,
    Started,
    claim_of,
    job_of,
    queued,
)
from knowledge.store.statements import Prepared
from knowledge.store.timestamps import stamp

J, D = schema.jobs.c, schema.documents.c
_JOBS = select(schema.jobs)
_BY_ID = _JOBS.where(J.id == bindparam("job_id"))
_BY_UID = Prepared(_JOBS.where(J.uid == bindparam("job_uid"), J.owner_id == bindparam("owner")))
_CHANGED = update(schema.jobs).where(J.id == bindparam("job_id"))
_ENDED = _CHANGED.where(J.token == bindparam("mine"))
_CREATED = Prepared(insert(schema.jobs))
_PUBLISHED = Prepared(_CHANGED)
_HELD = Prepared(
    select(J.id).where(J.id == bindparam("job_id"), J.token == bindparam("mine"), J.status == JobStatus.PROCESSING)
)
_DONE = (J.status == JobStatus.PROCESSING) & (J.change_seq <= bindparam("seq"))
_TO_FINISH = Prepared(select(J.id, J.sha256).where(_DONE))
_FINISHED = Prepared(
    update(schema.jobs)
    .where(_DONE)
    .values(
        status=J.outcome,
        step="Completed",
        token=None,
        completed_at=bindparam("now"),
        sha256=None,
        payload=literal_column("'{}'"),
    )
)
_UNFINISHED = Prepared(select(J.id).where(J.status == JobStatus.PROCESSING, J.change_seq.is_not(None)).limit(1))
_COUNTS = select(J.status, func.count().label("jobs")).group_by(J.status)
MUST_RUN_ALONE = (J.deaths >= MAX_DEATHS) | (J.unclean_starts >= MAX_UNCLEAN_STARTS)


class _Queue:
    """The jobs that one kind of claim takes from, first come first served within a priority."""

    def __init__(self, *conditions: Any) -> None:
        first = (
            select(J.id)
            .where(J.status == JobStatus.QUEUED, *conditions)
            .order_by(J.priority, J.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        self.first = Prepared(first)
        self.claim = Prepared(update(schema.jobs).where(J.id == first.scalar_subquery()).returning(schema.jobs))


_ORDINARY = _Queue(J.priority <= bindparam("most"), J.kind != JobKind.CRAWL, ~MUST_RUN_ALONE)
_ALONE = _Queue(J.kind != JobKind.CRAWL, MUST_RUN_ALONE)
_CRAWLS = _Queue(J.kind == JobKind.CRAWL, ~MUST_RUN_ALONE)
_CRAWLS_ALONE = _Queue(J.kind == JobKind.CRAWL, MUST_RUN_ALONE)
_STILL_NAMED = select(D.sha256).where(D.sha256.in_(bindparam("files", expanding=True)))
LEASE = 60_000_000
"""How long a claim holds without a sign of life, in microseconds; it matters where several processes claim."""

INTERACTIVE, BULK, BACKGROUND = 0, 10, 20
"""Priorities: a note somebody waits for, a file, work that nobody asked for."""


class JobStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- looking --------------------------------------------------------------------------------

    def find(self, ref: Ref, scope: Scope) -> Job:
        with self._database.read() as connection:
            row = _row(connection, ref, scope)
        if row is None:
            raise missing(ref)
        return job_of(row)

    def page(self, wanted: JobFilter, scope: Scope) -> Page[Job]:
        conditions = [J.owner_id == scope.owner]
        if wanted.status is not None:
            conditions.append(J.status == wanted.status)
        if wanted.kind is not None:
            conditions.append(J.kind == wanted.kind)
        with self._database.snapshot() as connection:
            total = connection.execute(select(func.count()).select_from(schema.jobs).where(*conditions)).scalar_one()
            rows = connection.execute(
                _JOBS.where(*conditions)
                .order_by(J.id.desc())
                .limit(wanted.per_page)
                .offset((wanted.page - 1) * wanted.per_page)
            ).all()
        return Page(tuple(map(job_of, rows)), total, wanted.page, wanted.per_page)

    def counts(self, scope: Scope) -> dict[str, int]:
        with self._database.read() as connection:
            rows = connection.execute(_COUNTS.where(J.owner_id == scope.owner))
            return {row.status: row.jobs for row in rows}

    def kept(self, ref: Ref, scope: Scope) -> str | None:
        """The original that a job still holds."""
        with self._database.read() as connection:
            return connection.execute(select(J.sha256).where(_named(ref), J.owner_id == scope.owner)).scalar()

    def originals(self) -> set[str]:
        """The files that jobs still hold."""
        with self._database.read() as connection:
            return set(connection.execute(select(J.sha256).where(J.sha256.is_not(None))).scalars())

    def active_in(self, collection_id: int) -> list[Started]:
        """The jobs that still want to put something into a collection, whoever started them."""
        return self._active(J.collection_id == collection_id)

    def active_of(self, owner: int) -> list[Started]:
        """The jobs that an account has started, or others for what it owns."""
        owned = select(schema.collections.c.id).where(schema.collections.c.owner_id == owner)
        return self._active((J.owner_id == owner) | J.collection_id.in_(owned))

    def _active(self, condition: Any) -> list[Started]:
        active = select(J.id, J.owner_id).where(condition, J.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING)))
        with self._database.read() as connection:
            return [Started(row.id, row.owner_id) for row in connection.execute(active)]

    # -- the life of a job ----------------------------------------------------------------------

    def claim(self, most_urgent_only: bool) -> Claim | None:
        """The next job, marked as ours; crawls are left to those who crawl, and jobs that must run alone to
        `claim_alone`."""
        return self._claim(_ORDINARY, {"most": INTERACTIVE if most_urgent_only else BACKGROUND})

    def claim_alone(self) -> Claim | None:
        """The next job that must run alone, marked as ours."""
        return self._claim(_ALONE, {})

    def claim_crawl(self, alone: bool = False) -> Claim | None:
        return self._claim(_CRAWLS_ALONE if alone else _CRAWLS, {})

    def any_crawl_queued(self) -> bool:
        return self._any(_CRAWLS.first, {}) or self._any(_CRAWLS_ALONE.first, {})

    def _claim(self, queue: _Queue, which: dict[str, int]) -> Claim | None:
        if not self._any(
            queue.first, which
        ):  # an arrival wakes more than one worker; to look costs a tenth of a commit
            return None
        moment_now = stamp()
        values = {
            "status": JobStatus.PROCESSING,
            "token": secrets.token_hex(16),
            "lease_until": moment_now + LEASE,
            "started_at": moment_now,
            "step": "Starting",
        }
        row = self._database.write(lambda connection: queue.claim.first(connection, {**which, **values}))
        return claim_of(row) if row else None

    def _any(self, wanted: Prepared, values_of: dict[str, int]) -> bool:
        with self._database.read() as connection:
            return wanted.scalar(connection, values_of) is not None

    def died(self, claim: Claim) -> None:
        """Queue a job again whose child process died, and count that."""
        self._end(claim, status=JobStatus.QUEUED, token=None, step="Queued", deaths=claim.deaths + 1, started_at=None)

    def release(self, claim: Claim) -> None:
        """Queue a job again that was interrupted through no fault of its own."""
        self._end(claim, status=JobStatus.QUEUED, token=None, step="Queued", started_at=None)

    def fail(self, claim: Claim, error: JobError, keep_original: bool) -> None:
        self._end(
            claim,
            status=JobStatus.FAILED,
            token=None,
            step="Failed",
            completed_at=stamp(),
            error={"code": error.code, "message": error.message, "hint": error.hint, "details": error.details},
            **(
                {}
                if keep_original
                else {"sha256": None, **traces.kept_after(claim.kind, claim.filename, claim.payload)}
            ),
        )

    def cancelled(self, claim: Claim) -> None:
        kept = traces.kept_after(claim.kind, claim.filename, claim.payload)
        values = {"status": JobStatus.CANCELLED, "token": None, "step": "Cancelled", "sha256": None}
        self._end(claim, completed_at=stamp(), **values, **kept)

    def ended(self, claim: Claim, status: JobStatus, warnings: tuple[str, ...], chunk_count: int) -> None:
        """A job that made no document of its own has done its work."""
        self._end(
            claim,
            status=status,
            token=None,
            step="Completed",
            completed_at=stamp(),
            warnings=list(warnings),
            chunk_count=chunk_count,
        )

    def duplicate(self, claim: Claim, document_id: int, document_uid: UUID, chunk_count: int) -> None:
        """The same bytes were finished by another job meanwhile: this one has the same result."""
        self._end(
            claim,
            status=JobStatus.COMPLETED,
            token=None,
            step="Completed",
            completed_at=stamp(),
            sha256=None,
            payload={},
            document_id=document_id,
            document_uid=document_uid,
            chunk_count=chunk_count,
            warnings=["The same bytes were already there; nothing was added."],
        )

    def unpacked(self, claim: Claim, warnings: Sequence[str]) -> None:
        """An archive has become so many jobs of its own; whose names it holds is known by its path alone."""
        self._end(
            claim,
            status=JobStatus.COMPLETED,
            token=None,
            step="Completed",
            completed_at=stamp(),
            sha256=None,
            payload={"archive": claim.payload["source_path"] or claim.filename},
            warnings=list(warnings),
        )

    def finish(self, seq: int) -> list[Finished]:
        """End the jobs whose change the index has seen; answers which they were, and the files they let go."""

        def work(connection: Connection) -> list[Finished]:
            rows = _TO_FINISH.all(connection, {"seq": seq})
            if rows:
                _FINISHED.run(connection, {"seq": seq, "now": stamp()})
            files = [row.sha256 for row in rows if row.sha256 is not None]
            named = set(connection.execute(_STILL_NAMED, {"files": files}).scalars()) if files else set()
            return [Finished(row.id, None if row.sha256 in named else row.sha256) for row in rows]

        return self._database.write(work) if self._any(_UNFINISHED, {}) else []

    def cancel_queued(self, identity: int) -> bool:
        """Cancel a job that nobody has begun."""

        def work(connection: Connection) -> bool:
            row = connection.execute(_BY_ID, {"job_id": identity}).first()
            if row is None or row.status != JobStatus.QUEUED:
                return False
            kept = traces.kept_after(JobKind(row.kind), row.filename, row.payload)
            values = {"status": JobStatus.CANCELLED, "step": "Cancelled", "completed_at": stamp(), "sha256": None}
            connection.execute(_CHANGED, {"job_id": identity, **values, **kept})
            return True

        return self._database.write(work)

    def retry(self, ref: Ref, scope: Scope) -> Job:
        def work(connection: Connection) -> Any:
            row = _row(connection, ref, scope)
            if row is None:
                raise missing(ref)
            if row.status not in (JobStatus.FAILED, JobStatus.CANCELLED):
                raise NotNow(f"Job {ref} is {row.status}; only failed jobs can be retried", status=row.status)
            if row.sha256 is None and row.kind not in traces.REPEATABLE:
                raise NotNow(f"The file of job {ref} was not kept", hint="Add the file again.", status=row.status)
            values = {
                "status": JobStatus.QUEUED,
                "step": "Queued",
                "error": None,
                "deaths": 0,
                "unclean_starts": 0,
                "started_at": None,
                "completed_at": None,
            }
            connection.execute(_CHANGED, {"job_id": row.id, **values})
            return connection.execute(_BY_ID, {"job_id": row.id}).one()

        return job_of(self._database.write(work))

    def forget_originals(self, before: int) -> int:
        """Let go of the files of jobs that failed long ago, and of what their callers said about them."""
        old = (J.status == JobStatus.FAILED) & J.sha256.is_not(None) & (J.completed_at < before)

        def work(connection: Connection) -> int:
            rows = connection.execute(select(schema.jobs).where(old)).all()
            for row in rows:
                kept = traces.kept_after(JobKind(row.kind), row.filename, row.payload)
                connection.execute(_CHANGED, {"job_id": row.id, "sha256": None, **kept})
            return len(rows)

        return self._database.write(work)

    def _end(self, claim: Claim, **values: Any) -> None:
        mine = {"job_id": claim.id, "mine": claim.token, **values}
        self._database.write(lambda connection: connection.execute(_ENDED, mine))


def queue(connection: Connection, new: NewJob) -> Job:
    """Queue a job; whether there is one with its uid already is for the caller to see first."""
    require_owner(connection, new.owner)
    created_at = stamp()
    values = {
        "uid": new.uid,
        "kind": new.kind,
        "owner_id": new.owner,
        "collection_id": new.collection_id,
        "filename": new.filename,
        "payload": new.payload,
        "sha256": new.sha256,
        "priority": new.priority,
        "status": JobStatus.QUEUED,
        "step": "Queued",
        "deaths": 0,
        "warnings": [],
        "chunk_count": 0,
        "created_at": created_at,
    }
    return queued(_CREATED.insert(connection, values), new, created_at)


def hold(connection: Connection, claim: Claim) -> None:
    """Check that a job is still ours; somebody may have cancelled it, or taken it over."""
    if _HELD.scalar(connection, {"job_id": claim.id, "mine": claim.token}) is None:
        raise Cancelled("The job is no longer ours", job_id=str(claim.uid))


def published(connection: Connection, claim: Claim, **values: Any) -> None:
    _PUBLISHED.run(connection, {"job_id": claim.id, "step": "Indexing", **values})


def find_uid(connection: Connection, uid: UUID, scope: Scope) -> Job | None:
    row = _BY_UID.first(connection, {"job_uid": uid, "owner": scope.owner})
    return job_of(row) if row else None


def _row(connection: Connection, ref: Ref, scope: Scope) -> Any | None:
    if isinstance(ref, UUID):
        return _BY_UID.first(connection, {"job_uid": ref, "owner": scope.owner})
    row = connection.execute(_BY_ID, {"job_id": ref}).first()
    return row if row is not None and row.owner_id == scope.owner else None


def missing(ref: Ref) -> JobNotFound:
    return JobNotFound(f"Job '{ref}' not found", job_id=str(ref))


def _named(ref: Ref) -> Any:
    return J.uid == ref if isinstance(ref, UUID) else J.id == ref
