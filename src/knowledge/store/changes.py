"""The change log: the ordered list of changed documents that the index follower applies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, Connection, bindparam, cast, delete, func, insert, select, update

from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.postgres import locks
from knowledge.store.prepared_statements import PreparedStatement, insert_if_absent
from knowledge.store.row_mapping import make_timestamp, parse_timestamp

L, S = schema.changes.c, schema.settings.c
TRIMMED_NAME = "changes_trimmed"
"""Name in the settings table of the last change that was deleted from the log."""
_INSERT_CHANGE = PreparedStatement(insert(schema.changes))
_SELECT_AFTER = PreparedStatement(
    select(L.seq, L.document_id, L.vectors_only)
    .where(L.seq > bindparam("seq"))
    .order_by(L.seq)
    .limit(bindparam("limit"))
)
_SEQUENCE = "sqlite_sequence"


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Distinct changed documents and the sequence number of the last change."""

    seq: int
    documents: tuple[int, ...]
    embedded: tuple[int, ...]
    """Documents of which only vectors have changed."""


def record_change(connection: Connection, document_id: int, *, vectors_only: bool = False) -> int:
    """Append a change of a document and return its sequence number.

    Called last in a transaction, because all writers wait for it: PostgreSQL assigns numbers before the commit, and
    without the lock a follower would pass over numbers that are committed later.
    """
    locks.lock_change_log(connection)
    row = {"document_id": document_id, "at": make_timestamp(), "vectors_only": vectors_only}
    return _INSERT_CHANGE.insert(connection, row)


def record_changes(connection: Connection, document_ids: Iterable[int], *, vectors_only: bool = False) -> int | None:
    """Append a change of each document and return the last number; like `record_change`, last in a transaction."""
    same = {"at": make_timestamp(), "vectors_only": vectors_only}
    rows = [{"document_id": document_id, **same} for document_id in document_ids]
    if not rows:
        return None
    locks.lock_change_log(connection)
    _INSERT_CHANGE.run_many(connection, rows[:-1])
    return _INSERT_CHANGE.insert(connection, rows[-1])


class ChangeLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read_after(self, seq: int, limit: int) -> ChangeBatch | None:
        with self._database.read() as connection:
            rows = _SELECT_AFTER.fetch_all(connection, {"seq": seq, "limit": limit})
        if not rows:
            return None
        documents = dict.fromkeys(row.document_id for row in rows if not row.vectors_only)
        embedded = dict.fromkeys(row.document_id for row in rows if row.document_id not in documents)
        return ChangeBatch(rows[-1].seq, tuple(documents), tuple(embedded))

    def newest_seq(self) -> int:
        """Return the last sequence number ever assigned, even if the log was trimmed; 0 before the first change."""
        with self._database.read() as connection:
            last = connection.execute(select(func.max(L.seq))).scalar()
            if last is None and connection.dialect.name == "sqlite":  # a log that an earlier version trimmed wholly
                last = connection.exec_driver_sql(f"SELECT seq FROM {_SEQUENCE} WHERE name = 'changes'").scalar()
            elif last is None:  # such a log that was moved here
                last = connection.execute(select(S.value).where(S.name == TRIMMED_NAME)).scalar()
        return int(last or 0)

    def oldest_seq(self) -> int | None:
        """Return the first sequence number in the log."""
        with self._database.read() as connection:
            first: int | None = connection.execute(select(func.min(L.seq))).scalar()
        return first

    def last_changed_at(self) -> datetime | None:
        with self._database.read() as connection:
            last = connection.execute(select(L.at).order_by(L.seq.desc()).limit(1)).scalar()
        return None if last is None else parse_timestamp(last)

    def is_complete_after(self, seq: int) -> bool:
        """Return whether the log has every change after this one."""
        with self._database.read() as connection:
            trimmed = connection.execute(select(S.value).where(S.name == TRIMMED_NAME)).scalar()
        if trimmed is not None:
            return int(trimmed) <= seq
        oldest = self.oldest_seq()  # of a log that an earlier version has trimmed; its numbers have no gaps
        return oldest <= seq + 1 if oldest is not None else self.newest_seq() <= seq

    def trim(self, seq: int) -> None:
        """Delete changes that every index has applied, except the newest, which has the time of the last change."""
        last = min(seq, self.newest_seq() - 1)
        # Numbers may have gaps, so what was deleted is stored: a server that was away sees whether it missed a change.
        further = update(schema.settings).where(S.name == TRIMMED_NAME, cast(S.value, BigInteger) < last)

        def work(connection: Connection) -> None:
            start = {"name": TRIMMED_NAME, "value": "0"}
            connection.execute(insert_if_absent(schema.settings, connection.dialect.name).values(**start))
            connection.execute(further.values(value=str(last)))
            connection.execute(delete(schema.changes).where(L.seq <= last))

        if last > 0:
            self._database.write(work)
