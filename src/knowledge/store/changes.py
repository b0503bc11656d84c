"""The change log: the ordered list of changed documents that the index follower applies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.prepared_statements import PreparedStatement
from knowledge.store.row_mapping import make_timestamp, parse_timestamp

L = schema.changes.c
_INSERT_CHANGE = PreparedStatement(insert(schema.changes))
_SELECT_AFTER = PreparedStatement(
    select(L.seq, L.document_id).where(L.seq > bindparam("seq")).order_by(L.seq).limit(bindparam("limit"))
)
_SEQUENCE = "sqlite_sequence"


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Distinct changed documents and the sequence number of the last change."""

    seq: int
    documents: tuple[int, ...]


def record_change(connection: Connection, document_id: int) -> int:
    """Append a change of a document and return its sequence number."""
    return _INSERT_CHANGE.insert(connection, {"document_id": document_id, "at": make_timestamp()})


class ChangeLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read_after(self, seq: int, limit: int) -> ChangeBatch | None:
        with self._database.read() as connection:
            rows = _SELECT_AFTER.fetch_all(connection, {"seq": seq, "limit": limit})
        return ChangeBatch(rows[-1].seq, tuple(dict.fromkeys(row.document_id for row in rows))) if rows else None

    def newest_seq(self) -> int:
        """Return the last sequence number ever assigned, even if the log was trimmed; 0 before the first change."""
        with self._database.read() as connection:
            last = connection.execute(select(func.max(L.seq))).scalar()
            if last is None:
                last = connection.exec_driver_sql(f"SELECT seq FROM {_SEQUENCE} WHERE name = 'changes'").scalar()
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

    def trim(self, seq: int) -> None:
        """Delete changes that the whole index has applied, except the newest, which has the time of the last change."""
        newest = self.newest_seq()
        self._database.write(
            lambda connection: connection.execute(delete(schema.changes).where(L.seq <= min(seq, newest - 1)))
        )
