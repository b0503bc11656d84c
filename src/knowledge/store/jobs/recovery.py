"""Requeue jobs whose server ended uncleanly or lost its lease, and fail poison jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from knowledge.errors import JobCrashed
from knowledge.model import JobStatus
from knowledge.store import schema
from knowledge.store.cluster.clock import database_now
from knowledge.store.cluster.servers import count_is_live
from knowledge.store.database import Database
from knowledge.store.jobs.claim_queues import MUST_RUN_ALONE
from knowledge.store.jobs.jobs import drop_processing_document, record_dropped_document
from knowledge.store.jobs.rows import MAX_UNCLEAN_STARTS, MAX_UNCLEAN_STARTS_ALONE
from knowledge.store.row_mapping import make_timestamp

J = schema.jobs.c
_UNFINISHED = (J.status == JobStatus.PROCESSING) & J.change_seq.is_(None) & J.token.is_not(None)
"""Claimed and not yet published; published jobs wait for the index, and those without a token to be embedded."""
_IS_POISON = (J.status == JobStatus.QUEUED) & (J.unclean_starts >= MAX_UNCLEAN_STARTS + MAX_UNCLEAN_STARTS_ALONE)
_REQUEUE_VALUES: dict[str, Any] = {"status": JobStatus.QUEUED, "token": None, "step": "Queued", "started_at": None}


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A job for log lines."""

    id: int
    filename: str
    unclean_starts: int

    def __str__(self) -> str:
        return f"job {self.id} ({self.filename})"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Result of the recovery after an unclean shutdown."""

    interrupted: int
    alone: tuple[NamedJob, ...]
    """Queued jobs in quarantine, which run alone."""
    failed: tuple[NamedJob, ...]


def recover_jobs(database: Database, server_id: str | None = None) -> Recovery:
    """Count an unclean start for every running job of a server, and requeue or fail it; None means of all servers."""

    def work(connection: Connection) -> Recovery:
        again = update(schema.jobs).where(_unfinished_of(server_id)).values(**_REQUEUE_VALUES)
        interrupted = connection.execute(again.values(unclean_starts=J.unclean_starts + 1)).rowcount
        return _end_recovery(connection, interrupted)

    return database.write(work)


def requeue_expired(database: Database) -> Recovery | None:
    """Requeue the jobs whose lease has expired, of any server; None if there are none.

    An unclean start is counted if the server is dead. One that is live has only been cut off from the database.
    """
    expired = _UNFINISHED & (J.lease_until < database_now())
    with database.read() as connection:
        if connection.execute(select(J.id).where(expired).limit(1)).first() is None:
            return None

    def work(connection: Connection) -> Recovery:
        # A row that its server has locked is about to be published or renewed.
        free = list(connection.execute(select(J.id).where(expired).with_for_update(skip_locked=True)).scalars())
        starts = J.unclean_starts + 1 - count_is_live(J.server_id)
        again = update(schema.jobs).where(J.id.in_(free)).values(**_REQUEUE_VALUES, unclean_starts=starts)
        return _end_recovery(connection, connection.execute(again).rowcount if free else 0)

    return database.write(work)


def _end_recovery(connection: Connection, interrupted: int) -> Recovery:
    is_quarantined = (J.status == JobStatus.QUEUED) & MUST_RUN_ALONE & ~_IS_POISON
    alone = connection.execute(_select_named().where(is_quarantined)).all()
    failed = _fail_poison_jobs(connection)  # last, because it records changes
    return Recovery(interrupted, _make_named_jobs(alone), _make_named_jobs(failed))


def release_unfinished(database: Database, server_id: str | None = None) -> int:
    """Requeue the claimed jobs of a server at a clean shutdown, without counting an unclean start."""
    unfinished = _unfinished_of(server_id)
    with database.read() as connection:
        if connection.execute(select(J.id).where(unfinished).limit(1)).first() is None:
            return 0
    again = update(schema.jobs).where(unfinished).values(**_REQUEUE_VALUES)
    return int(database.write(lambda connection: connection.execute(again).rowcount))


def _unfinished_of(server_id: str | None) -> Any:
    return _UNFINISHED if server_id is None else _UNFINISHED & (J.server_id == server_id)


def _fail_poison_jobs(connection: Connection) -> Sequence[Any]:
    """Fail the jobs that crashed the server too often while running alone, and keep their originals."""
    rows = connection.execute(select(schema.jobs).where(_IS_POISON).order_by(J.id).with_for_update()).all()
    dropped: dict[int, dict[str, Any]] = {}
    for row in rows:
        dropped[row.id] = drop_processing_document(connection, row)
        error = JobCrashed(
            f"The server ended uncleanly {row.unclean_starts} times while this job was running, "
            f"{row.unclean_starts - MAX_UNCLEAN_STARTS} of them while it ran alone",
            unclean_starts=row.unclean_starts,
        )
        values = {"code": error.code, "message": str(error), "hint": error.hint, "details": error.details}
        failed = {"status": JobStatus.FAILED, "step": "Failed", "completed_at": make_timestamp(), "error": values}
        connection.execute(update(schema.jobs).where(J.id == row.id).values(**failed, **dropped[row.id]))
    for row in rows:
        record_dropped_document(connection, row, dropped[row.id])
    return rows


def _select_named() -> Any:
    return select(J.id, J.filename, J.unclean_starts).order_by(J.id)


def _make_named_jobs(rows: Sequence[Any]) -> tuple[NamedJob, ...]:
    return tuple(NamedJob(row.id, row.filename, row.unclean_starts) for row in rows)
