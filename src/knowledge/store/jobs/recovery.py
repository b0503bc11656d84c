"""Requeue jobs that an unclean shutdown interrupted, and fail poison jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from knowledge.errors import JobCrashed
from knowledge.model import JobStatus
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.jobs.jobs import MUST_RUN_ALONE, drop_processing_document
from knowledge.store.jobs.rows import MAX_UNCLEAN_STARTS, MAX_UNCLEAN_STARTS_ALONE
from knowledge.store.row_mapping import make_timestamp

J = schema.jobs.c
_UNFINISHED = (J.status == JobStatus.PROCESSING) & J.change_seq.is_(None) & J.token.is_not(None)
"""Claimed and not yet published; published jobs wait for the index, and those without a token to be embedded."""
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


def recover_jobs(database: Database) -> Recovery:
    """Count an unclean start for every running job, and requeue or fail it."""

    def work(connection: Connection) -> Recovery:
        again = update(schema.jobs).where(_UNFINISHED).values(**_REQUEUE_VALUES, unclean_starts=J.unclean_starts + 1)
        interrupted = connection.execute(again).rowcount
        failed = _fail_poison_jobs(connection)
        alone = connection.execute(_select_named().where(J.status == JobStatus.QUEUED, MUST_RUN_ALONE)).all()
        return Recovery(interrupted, _make_named_jobs(alone), _make_named_jobs(failed))

    return database.write(work)


def release_unfinished(database: Database) -> int:
    """Requeue claimed jobs at a clean shutdown, without counting an unclean start."""
    with database.read() as connection:
        if connection.execute(select(J.id).where(_UNFINISHED).limit(1)).first() is None:
            return 0
    again = update(schema.jobs).where(_UNFINISHED).values(**_REQUEUE_VALUES)
    return int(database.write(lambda connection: connection.execute(again).rowcount))


def _fail_poison_jobs(connection: Connection) -> Sequence[Any]:
    """Fail the jobs that crashed the server too often while running alone, and keep their originals."""
    is_poison = (J.status == JobStatus.QUEUED) & (J.unclean_starts >= MAX_UNCLEAN_STARTS + MAX_UNCLEAN_STARTS_ALONE)
    rows = connection.execute(select(schema.jobs).where(is_poison).order_by(J.id)).all()
    for row in rows:
        dropped = drop_processing_document(connection, row)
        error = JobCrashed(
            f"The server ended uncleanly {row.unclean_starts} times while this job was running, "
            f"{row.unclean_starts - MAX_UNCLEAN_STARTS} of them while it ran alone",
            unclean_starts=row.unclean_starts,
        )
        values = {"code": error.code, "message": str(error), "hint": error.hint, "details": error.details}
        failed = {"status": JobStatus.FAILED, "step": "Failed", "completed_at": make_timestamp(), "error": values}
        connection.execute(update(schema.jobs).where(J.id == row.id).values(**failed, **dropped))
    return rows


def _select_named() -> Any:
    return select(J.id, J.filename, J.unclean_starts).order_by(J.id)


def _make_named_jobs(rows: Sequence[Any]) -> tuple[NamedJob, ...]:
    return tuple(NamedJob(row.id, row.filename, row.unclean_starts) for row in rows)
