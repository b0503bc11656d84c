"""Where the servers of a database keep originals, and since when each is not needed, by the clock of the database."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from knowledge.store import schema
from knowledge.store.cluster.clock import before_seconds, database_now
from knowledge.store.database import Database
from knowledge.store.prepared_statements import insert_if_absent

S, U = schema.settings.c, schema.unreferenced_originals.c
SETTING_NAME = "originals_id"
"""Name in the settings table of the id of the place of originals."""
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


def read_originals_id(database: Database) -> str | None:
    with database.read() as connection:
        return connection.execute(select(S.value).where(S.name == SETTING_NAME)).scalar()


def store_originals_id(database: Database, marker: str) -> str:
    """Store the id unless another server has stored one, and return the stored one."""
    values = {"name": SETTING_NAME, "value": marker}
    database.write(
        lambda connection: connection.execute(
            insert_if_absent(schema.settings, connection.dialect.name).values(**values)
        ),
        is_idempotent=True,
    )
    return read_originals_id(database) or marker
