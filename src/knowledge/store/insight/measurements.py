"""Measurements by hour: documents, unfinished jobs, searches and how long they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, delete, func, select, update

from knowledge.errors import InvalidKey
from knowledge.model import JobStatus
from knowledge.store import schema
from knowledge.store.accounts.accounts import require_owner
from knowledge.store.database import Database
from knowledge.store.insight.tables import measurements
from knowledge.store.prepared_statements import insert_if_absent
from knowledge.store.row_mapping import make_timestamp

M, D, J = measurements.c, schema.documents.c, schema.jobs.c

MICROSECONDS_PER_HOUR = 3600 * 1_000_000
KEPT_HOURS = 32 * 24
UNFINISHED = (JobStatus.QUEUED, JobStatus.PROCESSING)


@dataclass(frozen=True, slots=True)
class SearchTimes:
    """Searches of one owner since the last report."""

    searches: int
    total_ms: float
    slowest_ms: float


@dataclass(frozen=True, slots=True)
class OwnerCounts:
    documents: int
    queued: int


@dataclass(frozen=True, slots=True)
class HourRow:
    owner: int
    hour: int
    documents: int | None
    queued: int | None
    searches: int
    total_ms: float
    slowest_ms: float


def current_hour() -> int:
    """Return the number of hours since 1970."""
    return make_timestamp() // MICROSECONDS_PER_HOUR


class MeasurementStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add_searches(self, times_by_owner: Mapping[int, SearchTimes]) -> None:
        hour = current_hour()

        def work(connection: Connection) -> None:
            for owner, times in times_by_owner.items():
                slowest = case((M.slowest_ms < times.slowest_ms, times.slowest_ms), else_=M.slowest_ms)
                added = {"searches": M.searches + times.searches, "total_ms": M.total_ms + times.total_ms}
                _change_row(connection, owner, hour, {**added, "slowest_ms": slowest})

        self._database.write(work)

    def count_all(self) -> dict[int, OwnerCounts]:
        """Return the documents and the unfinished jobs of each owner."""
        with self._database.read() as connection:
            documents = dict(_count_by(connection, D.owner_id))
            queued = dict(_count_by(connection, J.owner_id, J.status.in_(UNFINISHED)))
        return {owner: OwnerCounts(documents.get(owner, 0), queued.get(owner, 0)) for owner in documents | queued}

    def write_counts(self, counts_by_owner: Mapping[int, OwnerCounts]) -> None:
        hour = current_hour()

        def work(connection: Connection) -> None:
            for owner, counts in counts_by_owner.items():
                _change_row(connection, owner, hour, {"documents": counts.documents, "queued": counts.queued})

        self._database.write(work)

    def list_hours(self, owner: int | None, since: int) -> list[HourRow]:
        """Return the rows of an owner, or of all owners, from an hour on, oldest first."""
        wanted = select(measurements).where(M.hour >= since).order_by(M.hour)
        with self._database.read() as connection:
            rows = connection.execute(wanted if owner is None else wanted.where(M.owner_id == owner)).all()
        return [HourRow(*row) for row in rows]

    def find_counts_before(self, owner: int | None, hour: int) -> dict[int, OwnerCounts]:
        """Return the last counts of an owner, or of all owners, before an hour."""
        counted = [M.hour < hour, M.documents.is_not(None), *([] if owner is None else [M.owner_id == owner])]
        last = select(M.owner_id, func.max(M.hour).label("hour")).where(*counted).group_by(M.owner_id).subquery()
        wanted = select(M.owner_id, M.documents, M.queued).join(
            last, (last.c.owner_id == M.owner_id) & (last.c.hour == M.hour)
        )
        with self._database.read() as connection:
            return {row.owner_id: OwnerCounts(row.documents, row.queued or 0) for row in connection.execute(wanted)}

    def forget_old(self) -> None:
        """Delete old hours, but the last one with counts of each owner is kept, because it still holds."""
        oldest = current_hour() - KEPT_HOURS
        last = select(M.owner_id, func.max(M.hour)).where(M.documents.is_not(None)).group_by(M.owner_id)
        with self._database.read() as connection:
            kept: Sequence[Any] = connection.execute(last).all()
        holding = {owner: hour for owner, hour in kept if hour < oldest}

        def work(connection: Connection) -> None:
            connection.execute(delete(measurements).where(M.hour < oldest, M.owner_id.not_in(list(holding))))
            for owner, hour in holding.items():
                connection.execute(delete(measurements).where(M.owner_id == owner, M.hour < hour))

        self._database.write(work)


def delete_measurements_of(connection: Connection, owner: int) -> None:
    connection.execute(delete(measurements).where(M.owner_id == owner))


def _count_by(connection: Connection, owner_column: Any, *conditions: Any) -> Sequence[Any]:
    return [
        (row[0], row[1])
        for row in connection.execute(select(owner_column, func.count()).where(*conditions).group_by(owner_column))
    ]


def _change_row(connection: Connection, owner: int, hour: int, values: Mapping[str, Any]) -> None:
    """Change the row of an hour, unless the account was deleted meanwhile."""
    try:
        require_owner(connection, owner)
    except InvalidKey:
        return
    change = update(measurements).where(M.owner_id == owner, M.hour == hour).values(**values)
    if not connection.execute(change).rowcount:
        made = insert_if_absent(measurements, connection.dialect.name)  # another server may insert it too
        connection.execute(made.values(owner_id=owner, hour=hour, searches=0, total_ms=0.0, slowest_ms=0.0))
        connection.execute(change)
