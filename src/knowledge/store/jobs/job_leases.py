"""What the servers of one database tell each other about running jobs: leases, progress and cancellation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, case, func, select, update

from knowledge.model import JobKind, JobStatus
from knowledge.store import schema
from knowledge.store.cluster.clock import after_seconds
from knowledge.store.database import Database
from knowledge.store.jobs.claim_queues import LEASE_SECONDS, MUST_RUN_ALONE

J = schema.jobs.c
_IS_RUNNING = (J.status == JobStatus.PROCESSING) & J.change_seq.is_(None) & J.token.is_not(None)
_WRITE_PROGRESS = (
    update(schema.jobs)
    .where(_IS_RUNNING, J.token == bindparam("mine"))
    .values(
        step=bindparam("new_step"),
        done=bindparam("new_done"),
        total=bindparam("new_total"),
        unit=bindparam("new_unit"),
        # Another server may have come further with the job before it was killed.
        progress=case((J.progress > bindparam("new_progress"), J.progress), else_=bindparam("new_progress")),
    )
)


@dataclass(frozen=True, slots=True)
class StoredProgress:
    token: str
    step: str
    done: int
    total: int
    unit: str | None
    progress: float


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """Which kinds of jobs wait for a server."""

    documents: bool
    alone: bool
    """Quarantined jobs, which run alone."""
    crawls: bool


class JobLeases:
    def __init__(self, database: Database, server_id: str, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database, self._server_id, self.lease_seconds = database, server_id, lease_seconds

    def renew(self, tokens: Sequence[str]) -> set[str]:
        """Extend the leases of all claims of this server and return the tokens that are still valid."""
        if not tokens:
            return set()
        mine = update(schema.jobs).where(_IS_RUNNING, J.token.in_(tokens)).returning(J.token)
        extended = mine.values(lease_until=after_seconds(self.lease_seconds))
        return self._database.write(lambda connection: set(connection.execute(extended).scalars()))

    def find_claimed(self, tokens: Sequence[str]) -> set[str]:
        """Return the tokens with which jobs are still claimed, published or not."""
        claimed = select(J.token).where(J.token.in_(tokens), J.status == JobStatus.PROCESSING)
        with self._database.read() as connection:
            return {str(token) for token in connection.execute(claimed).scalars()} if tokens else set()

    def write_progress(self, changed: Sequence[StoredProgress]) -> None:
        rows = [
            {
                "mine": each.token,
                "new_step": each.step,
                "new_done": each.done,
                "new_total": each.total,
                "new_unit": each.unit,
                "new_progress": each.progress,
            }
            for each in changed
        ]
        if rows:
            self._database.write(lambda connection: connection.execute(_WRITE_PROGRESS, rows))

    def request_cancel(self, job_id: int) -> bool:
        """Ask the server that runs a job to cancel it; return False if no server runs it."""
        asked = update(schema.jobs).where(J.id == job_id, _IS_RUNNING).values(cancel_requested=True)
        return bool(self._database.write(lambda connection: connection.execute(asked).rowcount))

    def list_cancelled(self) -> list[int]:
        """Return the jobs of this server that another server was asked to cancel."""
        asked = select(J.id).where(J.server_id == self._server_id, J.cancel_requested, _IS_RUNNING)
        with self._database.read() as connection:
            return list(connection.execute(asked).scalars())

    def list_ended(self, job_ids: Sequence[int]) -> list[int]:
        """Return which of these jobs have ended or been removed."""
        active = select(J.id).where(J.id.in_(job_ids), J.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING)))
        with self._database.read() as connection:
            running = set(connection.execute(active).scalars()) if job_ids else set()
        return [job_id for job_id in job_ids if job_id not in running]

    def find_waiting(self) -> WaitingJobs:
        """Return which jobs wait to be claimed, of any server."""
        queued = select(J.kind, MUST_RUN_ALONE.label("alone"), func.count()).where(J.status == JobStatus.QUEUED)
        unembedded = (J.status == JobStatus.PROCESSING) & J.token.is_(None) & J.change_seq.is_(None)

        def read(connection: Connection) -> WaitingJobs:
            kinds = [(row.kind, row.alone) for row in connection.execute(queued.group_by(J.kind, "alone"))]
            waits = connection.execute(select(J.id).where(unembedded).limit(1)).first() is not None
            others = [bool(alone) for kind, alone in kinds if kind != JobKind.CRAWL]
            return WaitingJobs(waits or bool(others), any(others), any(kind == JobKind.CRAWL for kind, _ in kinds))

        with self._database.read() as connection:
            return read(connection)
