"""Notes since when originals are not needed, by the clock of the database."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from knowledge.store import schema
from knowledge.store.cluster.clock import before_seconds, database_now
from knowledge.store.database import Database
from knowledge.store.prepared_statements import insert_if_absent

U = schema.unreferenced_originals.c
MAX_LISTED = 10_000
"""Originals that one sweep deletes at most."""


class UnreferencedOriginalStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def mark(self, sha256: str, *, keep_earlier: bool = False) -> None:
        """Note that an original is not needed since now, or since an earlier time that is known."""

        def work(connection: Connection) -> None:
            own = update(schema.unreferenced_originals).where(U.sha256 == sha256)
            if keep_earlier or not connection.execute(own.values(since=database_now())).rowcount:
                row = insert_if_absent(schema.unreferenced_originals, connection.dialect.name)
                connection.execute(row.values(sha256=sha256, since=database_now()))

        self._database.write(work, is_idempotent=True)

    def forget(self, sha256: str) -> None:
        own = delete(schema.unreferenced_originals).where(U.sha256 == sha256)
        self._database.write(lambda connection: connection.execute(own), is_idempotent=True)

    def is_marked(self, sha256: str, seconds: float = 0.0) -> bool:
        """Return whether an original is noted, since at least so many seconds."""
        found = select(U.sha256).where(U.sha256 == sha256, U.since <= before_seconds(seconds))
        with self._database.read() as connection:
            return connection.execute(found).first() is not None

    def list_marked(self, seconds: float) -> list[str]:
        """Return the originals that are noted since at least so many seconds, the longest first."""
        old = select(U.sha256).where(U.since <= before_seconds(seconds)).order_by(U.since).limit(MAX_LISTED)
        with self._database.read() as connection:
            return list(connection.execute(old).scalars())
