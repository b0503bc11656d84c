"""The jobs table: queue, claim, end and retry jobs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, func, insert, literal_column, select, update

from knowledge.errors import InvalidParameter, JobNotFound, NotNow
from knowledge.model import Job, JobError, JobFilter, JobKind, JobStatus, Json, Ref, ResultPage, Scope
from knowledge.model.events import ChangeKind
from knowledge.store import documents, erasure, events, schema
from knowledge.store.accounts.accounts import require_owner
from knowledge.store.cluster.clock import MICROSECONDS_PER_SECOND, database_now
from knowledge.store.database import Database
from knowledge.store.jobs import claim_queues
from knowledge.store.jobs.claim_queues import (
    LEASE_SECONDS,
    PRIORITY_BACKGROUND,
    PRIORITY_BULK,
    PRIORITY_INTERACTIVE,
    PRIORITY_INTERACTIVE_VECTORS,
    ClaimQueue,
)
from knowledge.store.jobs.rows import (
    ActiveJob,
    FinishedJob,
    JobClaim,
    NewJob,
    keeps_original,
    make_claim,
    make_job,
    make_queued_job,
)
from knowledge.store.postgres import locks
from knowledge.store.prepared_statements import PreparedStatement
from knowledge.store.row_mapping import make_timestamp

J, D = schema.jobs.c, schema.documents.c
_SELECT_JOBS = select(schema.jobs)
_SELECT_BY_ID = _SELECT_JOBS.where(J.id == bindparam("job_id"))
_SELECT_BY_IDS = _SELECT_JOBS.where(J.id.in_(bindparam("ids", expanding=True)))
_LOCK_BY_ID = _SELECT_BY_ID.with_for_update()
_SELECT_BY_UID = PreparedStatement(_SELECT_JOBS.where(J.uid == bindparam("job_uid"), J.owner_id == bindparam("owner")))
_UPDATE_JOB = update(schema.jobs).where(J.id == bindparam("job_id"))
_UPDATE_CLAIMED = _UPDATE_JOB.where(J.token == bindparam("mine"))
_INSERT_JOB = PreparedStatement(insert(schema.jobs))
_IS_INDEXED = (J.status == JobStatus.PROCESSING) & (J.change_seq <= bindparam("seq"))
_SELECT_INDEXED = PreparedStatement(select(J.id, J.sha256).where(_IS_INDEXED).order_by(J.id).with_for_update())
_FINISH_INDEXED = PreparedStatement(
    update(schema.jobs)
    .where(_IS_INDEXED)
    .values(
        status=J.outcome,
        step="Completed",
        token=None,
        completed_at=bindparam("now"),
        sha256=None,
        payload=literal_column("'{}'"),
    )
)
_FIND_PUBLISHED = PreparedStatement(
    select(J.id).where(J.status == JobStatus.PROCESSING, J.change_seq.is_not(None)).limit(1)
)
_COUNT_BY_STATUS = select(J.status, func.count().label("jobs")).group_by(J.status)
_SELECT_REFERENCED = select(D.sha256).where(D.sha256.in_(bindparam("files", expanding=True)))
MAX_RETRIED_JOBS = 1000
"""Jobs that one call retries; the next call goes on."""


class JobStore:
    def __init__(self, database: Database, server_id: str | None = None, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database, self._server_id = database, server_id
        self._lease_microseconds = int(lease_seconds * MICROSECONDS_PER_SECOND)
        self.find_progress: Callable[[int], float] = lambda _: 0.0
        """Returns how far a job is that runs here; stored when it ends without a result."""

    # -- queries --------------------------------------------------------------------------------

    def find(self, ref: Ref, scope: Scope) -> Job:
        with self._database.read() as connection:
            row = _find_row(connection, ref, scope)
        if row is None:
            raise not_found_error(ref)
        return make_job(row)

    def page(self, wanted: JobFilter, scope: Scope) -> ResultPage[Job]:
        conditions = [J.owner_id == scope.owner]
        if wanted.status is not None:
            conditions.append(J.status == wanted.status)
        if wanted.kind is not None:
            conditions.append(J.kind == wanted.kind)
        with self._database.snapshot() as connection:
            total = connection.execute(select(func.count()).select_from(schema.jobs).where(*conditions)).scalar_one()
            rows = connection.execute(
                _SELECT_JOBS.where(*conditions)
                .order_by(J.id.desc())
                .limit(wanted.per_page)
                .offset((wanted.page - 1) * wanted.per_page)
            ).all()
        return ResultPage(tuple(map(make_job, rows)), total, wanted.page, wanted.per_page)

    def list_by_ids(self, identities: Sequence[int]) -> list[Job]:
        """Return jobs of any owner, without those that were deleted."""
        with self._database.read() as connection:
            return [make_job(row) for row in connection.execute(_SELECT_BY_IDS, {"ids": [*identities]})]

    def list_after(self, identity: int, limit: int) -> list[Job]:
        """Return the jobs of any owner with a higher id, oldest first."""
        newer = _SELECT_JOBS.where(J.id > identity).order_by(J.id).limit(limit)
        with self._database.read() as connection:
            return [make_job(row) for row in connection.execute(newer)]

    def newest_id(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute(select(func.max(J.id))).scalar() or 0)

    def list_unfinished(self, limit: int, scope: Scope | None = None) -> tuple[list[Job], int]:
        """Return the newest unfinished jobs of a caller, or of all, and how many there are."""
        unfinished: list[Any] = [J.status.in_((JobStatus.PROCESSING, JobStatus.QUEUED))]
        unfinished += [] if scope is None else [J.owner_id == scope.owner]
        with self._database.snapshot() as connection:
            count = connection.execute(select(func.count()).select_from(schema.jobs).where(*unfinished)).scalar_one()
            rows = connection.execute(_SELECT_JOBS.where(*unfinished).order_by(J.id.desc()).limit(limit)).all()
        return [make_job(row) for row in rows], int(count)

    def list_ended_since(self, at: int, scope: Scope, limit: int) -> list[Job]:
        """Return the jobs of a caller that ended at a time or later, oldest first."""
        ended = _SELECT_JOBS.where(J.owner_id == scope.owner, J.completed_at >= at).order_by(J.completed_at, J.id)
        with self._database.read() as connection:
            return [make_job(row) for row in connection.execute(ended.limit(limit))]

    def count_by_status(self, scope: Scope) -> dict[str, int]:
        with self._database.read() as connection:
            rows = connection.execute(_COUNT_BY_STATUS.where(J.owner_id == scope.owner))
            return {row.status: row.jobs for row in rows}

    def find_original(self, ref: Ref, scope: Scope) -> str | None:
        """Return the SHA-256 of the original that a job keeps."""
        with self._database.read() as connection:
            return connection.execute(select(J.sha256).where(_matches_ref(ref), J.owner_id == scope.owner)).scalar()

    def list_originals(self) -> set[str]:
        """Return the originals that jobs keep."""
        with self._database.read() as connection:
            return set(connection.execute(select(J.sha256).where(J.sha256.is_not(None))).scalars())

    def list_active_in(self, collection_id: int) -> list[ActiveJob]:
        """Return the active jobs for a collection, of any owner."""
        return self._list_active(J.collection_id == collection_id)

    def list_active_of(self, owner: int) -> list[ActiveJob]:
        """Return the active jobs of an account and those of others for its collections."""
        owned = select(schema.collections.c.id).where(schema.collections.c.owner_id == owner)
        return self._list_active((J.owner_id == owner) | J.collection_id.in_(owned))

    def _list_active(self, condition: Any) -> list[ActiveJob]:
        active = select(J.id, J.owner_id).where(condition, J.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING)))
        with self._database.read() as connection:
            return [ActiveJob(row.id, row.owner_id) for row in connection.execute(active)]

    # -- claiming and ending --------------------------------------------------------------------

    def claim(self, most_urgent_only: bool) -> JobClaim | None:
        """Claim the next job that is neither a crawl nor quarantined."""
        most = {"most": PRIORITY_INTERACTIVE_VECTORS if most_urgent_only else PRIORITY_BACKGROUND}
        with self._database.read() as connection:
            firsts = [
                (queue.first.fetch_first(connection, most), queue)
                for queue in (claim_queues.ORDINARY, claim_queues.WITHOUT_VECTORS)
            ]
        waiting = [(row.priority, queue) for row, queue in firsts if row is not None]
        return self._claim_from(min(waiting, key=itemgetter(0))[1], most) if waiting else None

    def claim_without_vectors(self) -> JobClaim | None:
        """Claim the next job that waits to be embedded, before all that wait to be read."""
        return self._claim_from(claim_queues.WITHOUT_VECTORS, {"most": PRIORITY_BACKGROUND})

    def is_next(self, priority: int, *, is_running: bool) -> bool:
        """Return whether no waiting job goes before an embedding of this priority; one that runs goes before equals."""
        return not (
            self._exists(claim_queues.ORDINARY.first, {"most": priority - 1})
            or self._exists(claim_queues.WITHOUT_VECTORS.first, {"most": priority - 1 if is_running else priority})
        )

    def claim_alone(self) -> JobClaim | None:
        """Claim the next quarantined job."""
        return self._claim_from(claim_queues.ALONE, {})

    def claim_crawl(self, alone: bool = False) -> JobClaim | None:
        return self._claim_from(claim_queues.CRAWLS_ALONE if alone else claim_queues.CRAWLS, {})

    def has_queued_crawl(self) -> bool:
        return self._exists(claim_queues.CRAWLS.first, {}) or self._exists(claim_queues.CRAWLS_ALONE.first, {})

    def _claim_from(self, queue: ClaimQueue, which: dict[str, int]) -> JobClaim | None:
        # A new job wakes several workers, and a read costs a tenth of a commit.
        if not self._exists(queue.first, which):
            return None
        now = make_timestamp()
        values = {
            "status": JobStatus.PROCESSING,
            "token": secrets.token_hex(16),
            "server_id": self._server_id,
            "lease_microseconds": self._lease_microseconds,
            "started_at": now,
            "step": "Starting",
            "done": 0,
            "total": 0,
        }
        row = self._database.write(lambda connection: queue.claim.fetch_first(connection, {**which, **values}))
        return make_claim(row) if row else None

    def _exists(self, statement: PreparedStatement, values: dict[str, int]) -> bool:
        with self._database.read() as connection:
            return statement.fetch_scalar(connection, values) is not None

    def start(self, new: NewJob) -> JobClaim:
        """Insert a job that this server runs at once, so that no worker claims it."""
        lease_until, token = database_now() + self._lease_microseconds, secrets.token_hex(16)
        values = {"status": JobStatus.PROCESSING, "step": "Starting", "token": token, "server_id": self._server_id}

        def work(connection: Connection) -> JobClaim:
            job = queue_job(connection, new)
            started = _UPDATE_JOB.values(lease_until=lease_until, started_at=make_timestamp(), **values)
            connection.execute(started, {"job_id": job.id})
            return make_claim(connection.execute(_SELECT_BY_ID, {"job_id": job.id}).one())

        return self._database.write(work)

    def requeue_after_crash(self, claim: JobClaim) -> None:
        """Queue a job again after its child process crashed, and count the crash."""
        self._update_claimed(
            claim, status=JobStatus.QUEUED, token=None, step="Queued", deaths=claim.deaths + 1, started_at=None
        )

    def requeue(self, claim: JobClaim) -> None:
        """Queue an interrupted job again without counting a crash."""
        self._update_claimed(claim, status=JobStatus.QUEUED, token=None, step="Queued", started_at=None)

    def mark_failed(self, claim: JobClaim, error: JobError, keep_original: bool) -> None:
        kept = {} if keep_original else _drop_original(claim.kind, claim.filename, claim.payload)
        self._end_and_drop_document(claim, JobStatus.FAILED, "Failed", error=asdict(error), **kept)

    def mark_cancelled(self, claim: JobClaim) -> None:
        kept = _drop_original(claim.kind, claim.filename, claim.payload)
        self._end_and_drop_document(claim, JobStatus.CANCELLED, "Cancelled", **kept)

    def mark_ended(self, claim: JobClaim, status: JobStatus, warnings: tuple[str, ...], chunk_count: int) -> None:
        """End a job that published no document itself, such as a crawl."""
        self._end_claimed(claim, status, "Completed", warnings=list(warnings), chunk_count=chunk_count)

    def mark_duplicate(self, claim: JobClaim, document_id: int, document_uid: UUID, chunk_count: int) -> None:
        """End a job whose bytes another job has published meanwhile, with the same document as result."""
        self._end_and_drop_document(
            claim,
            JobStatus.COMPLETED,
            "Completed",
            sha256=None,
            payload={},
            document_id=document_id,
            document_uid=document_uid,
            chunk_count=chunk_count,
            warnings=["The same content already exists; nothing was added."],
        )

    def mark_unpacked(self, claim: JobClaim, warnings: Sequence[str]) -> None:
        """End the job of an archive after each document in it has got a job."""
        # `erasure` needs the path of the archive to clear this job when its last document is removed.
        payload = {"archive": claim.payload["source_path"] or claim.filename}
        self._end_claimed(
            claim, JobStatus.COMPLETED, "Completed", sha256=None, payload=payload, warnings=list(warnings)
        )

    def finish_indexed(self, seq: int) -> list[FinishedJob]:
        """End the jobs whose change the index has applied, and return them with unreferenced originals."""

        def work(connection: Connection) -> list[FinishedJob]:
            rows = _SELECT_INDEXED.fetch_all(connection, {"seq": seq})
            if rows:
                _FINISH_INDEXED.run(connection, {"seq": seq, "now": make_timestamp()})
            files = [row.sha256 for row in rows if row.sha256 is not None]
            named = set(connection.execute(_SELECT_REFERENCED, {"files": files}).scalars()) if files else set()
            return [FinishedJob(row.id, None if row.sha256 in named else row.sha256) for row in rows]

        return self._database.write(work) if self._exists(_FIND_PUBLISHED, {}) else []

    def cancel(self, identity: int, *, even_if_running: bool = False) -> bool:
        """Cancel a job that is queued or waits to be embedded, or one that a worker runs; return whether it was.

        The worker of a running job finds that it has lost its claim when it stores something.
        """

        def work(connection: Connection) -> bool:
            row = _lock_job(connection, identity)
            if row is None or not (_is_waiting(row) or (even_if_running and _is_running(row))):
                return False
            kept = drop_processing_document(connection, row) | _drop_original(
                JobKind(row.kind), row.filename, row.payload
            )
            values = _make_end_values(JobStatus.CANCELLED, "Cancelled") | self._make_progress_values(row)
            connection.execute(_UPDATE_JOB, {"job_id": identity, **values, **kept})
            record_dropped_document(connection, row, kept)
            return True

        return self._database.write(work)

    def retry(self, ref: Ref, scope: Scope) -> Job:
        def work(connection: Connection) -> Any:
            row = _find_row(connection, ref, scope)
            row = None if row is None else connection.execute(_LOCK_BY_ID, {"job_id": row.id}).first()
            if row is None:
                raise not_found_error(ref)
            if row.status not in (JobStatus.FAILED, JobStatus.CANCELLED):
                raise NotNow(f"Job {ref} is {row.status}; only failed jobs can be retried", status=row.status)
            if not keeps_original(row):
                raise NotNow(f"The original of job {ref} was not kept", hint="Add the file again.", status=row.status)
            values = {
                "status": JobStatus.QUEUED,
                "step": "Queued",
                "error": None,
                "deaths": 0,
                "unclean_starts": 0,
                "progress": 0.0,
                "started_at": None,
                "completed_at": None,
                "cancel_requested": False,
            }
            connection.execute(_UPDATE_JOB, {"job_id": row.id, **values})
            return connection.execute(_SELECT_BY_ID, {"job_id": row.id}).one()

        return make_job(self._database.write(work))

    def list_retryable(self, status: JobStatus, scope: Scope) -> list[int]:
        """Return the ids of a caller's jobs with this status, oldest first, at most MAX_RETRIED_JOBS."""
        if status not in (JobStatus.FAILED, JobStatus.CANCELLED):
            raise InvalidParameter("Only failed and cancelled jobs can be retried", parameter="status")
        ended = select(J.id).where(J.owner_id == scope.owner, J.status == status).order_by(J.id).limit(MAX_RETRIED_JOBS)
        with self._database.read() as connection:
            return list(connection.execute(ended).scalars())

    def forget_originals(self, before: int) -> int:
        """Drop the originals and payloads of jobs that failed before a time; return the number of jobs."""
        old = (J.status == JobStatus.FAILED) & J.sha256.is_not(None) & (J.completed_at < before)

        def work(connection: Connection) -> int:
            rows = connection.execute(select(schema.jobs).where(old)).all()
            for row in rows:
                kept = _drop_original(JobKind(row.kind), row.filename, row.payload)
                connection.execute(_UPDATE_JOB, {"job_id": row.id, **kept})
            return len(rows)

        return self._database.write(work)

    def _end_and_drop_document(self, claim: JobClaim, status: JobStatus, step: str, **values: Any) -> None:
        """End a job and delete the document that it has published by words, in one transaction."""

        def work(connection: Connection) -> None:
            row = _lock_job(connection, claim.id)
            if row is not None and row.token == claim.token:
                dropped = drop_processing_document(connection, row)
                ended = dropped | _make_end_values(status, step) | self._make_progress_values(row) | values
                connection.execute(_UPDATE_JOB, {"job_id": claim.id, **ended})
                record_dropped_document(connection, row, dropped)

        self._database.write(work)

    def _make_progress_values(self, row: Any) -> dict[str, Any]:
        return {"progress": max(row.progress, self.find_progress(row.id))}

    def _end_claimed(self, claim: JobClaim, status: JobStatus, step: str, **values: Any) -> None:
        self._update_claimed(claim, **_make_end_values(status, step), **values)

    def _update_claimed(self, claim: JobClaim, **values: Any) -> None:
        mine = {"job_id": claim.id, "mine": claim.token, **values}
        self._database.write(lambda connection: connection.execute(_UPDATE_CLAIMED, mine))


def _is_waiting(row: Any) -> bool:
    """Return whether no worker runs a job that has not ended: it is queued, or waits to be embedded."""
    unclaimed = row.status == JobStatus.PROCESSING and row.token is None and row.change_seq is None
    return row.status == JobStatus.QUEUED or unclaimed


def _is_running(row: Any) -> bool:
    """Return whether a worker runs a job that has not published its result."""
    return row.status == JobStatus.PROCESSING and row.change_seq is None


def _lock_job(connection: Connection, identity: int) -> Any | None:
    """Lock the collection of a job and the job, and return its row."""
    if locks.is_needed(connection):
        collection_id = connection.execute(select(J.collection_id).where(J.id == identity)).scalar()
        locks.lock_collections(connection, *([] if collection_id is None else [collection_id]))
    return connection.execute(_LOCK_BY_ID, {"job_id": identity}).first()


def record_dropped_document(connection: Connection, row: Any, values: dict[str, Any]) -> None:
    """Record the removal of a document that `drop_processing_document` has deleted; last in a transaction."""
    if "document_id" in values:
        collection = schema.collections.c
        owner = connection.execute(select(collection.owner_id).where(collection.id == row.collection_id)).scalar()
        place = {"owner": row.owner_id if owner is None else owner, "collection_id": row.collection_id}
        events.record_document(connection, ChangeKind.REMOVED, row.document_id, row.document_uid, **place)


def drop_processing_document(connection: Connection, row: Any) -> dict[str, Any]:
    """Delete the document that an unfinished job has published by words; return the values of the job without it."""
    if row.kind != JobKind.ADD or row.document_id is None or row.change_seq is not None:
        return {}
    documents.drop_processing(connection, row.document_id)
    priority = PRIORITY_INTERACTIVE if row.priority < PRIORITY_BULK else PRIORITY_BULK
    return {"document_id": None, "document_uid": None, "chunk_count": 0, "warnings": [], "priority": priority}


def _make_end_values(status: JobStatus, step: str) -> dict[str, Any]:
    return {"status": status, "step": step, "token": None, "completed_at": make_timestamp()}


def _drop_original(kind: JobKind, filename: str, payload: Json) -> dict[str, Any]:
    """Return the values of an ended job whose original is not kept."""
    return {"sha256": None, **erasure.make_kept_values(kind, filename, payload)}


def queue_job(connection: Connection, new: NewJob) -> Job:
    """Insert a queued job; the caller has checked that its uid is unused."""
    require_owner(connection, new.owner)
    created_at = make_timestamp()
    values = {
        "uid": new.uid,
        "kind": new.kind,
        "owner_id": new.owner,
        "collection_id": new.collection_id,
        "filename": new.filename,
        "payload": new.payload,
        "sha256": new.sha256,
        "priority": new.priority,
        "document_id": new.document_id,
        "status": JobStatus.QUEUED,
        "step": "Queued",
        "deaths": 0,
        "warnings": [],
        "chunk_count": 0,
        "created_at": created_at,
    }
    return make_queued_job(_INSERT_JOB.insert(connection, values), new, created_at)


def find_by_uid(connection: Connection, uid: UUID, scope: Scope) -> Job | None:
    row = _SELECT_BY_UID.fetch_first(connection, {"job_uid": uid, "owner": scope.owner})
    return make_job(row) if row else None


def _find_row(connection: Connection, ref: Ref, scope: Scope) -> Any | None:
    if isinstance(ref, UUID):
        return _SELECT_BY_UID.fetch_first(connection, {"job_uid": ref, "owner": scope.owner})
    row = connection.execute(_SELECT_BY_ID, {"job_id": ref}).first()
    return row if row is not None and row.owner_id == scope.owner else None


def not_found_error(ref: Ref) -> JobNotFound:
    return JobNotFound(f"Job '{ref}' not found", job_id=str(ref))


def _matches_ref(ref: Ref) -> Any:
    return J.uid == ref if isinstance(ref, UUID) else J.id == ref
