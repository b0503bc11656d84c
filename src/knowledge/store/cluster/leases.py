"""Leases with fencing tokens, for work that one server does for all, such as sweeps and model changes."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from knowledge.errors import NotNow
from knowledge.store import schema
from knowledge.store.cluster.clock import after_seconds, database_now
from knowledge.store.database import Database
from knowledge.store.prepared_statements import insert_if_absent

E = schema.leases.c


class LeaseStore:
    def __init__(self, database: Database, holder: str) -> None:
        self._database, self.holder = database, holder

    def acquire(self, name: str, seconds: float) -> int | None:
        """Take or renew a lease and return its fencing token; None while another server holds it."""
        self._ensure_row(name)
        free = (E.expires_at < database_now()) | (E.holder == self.holder)
        take = update(schema.leases).where(E.name == name, free).returning(E.token)
        # A holder that renews gets a new token too: what it began before may have been cut off by the expiry.
        values = {"holder": self.holder, "token": E.token + 1, "expires_at": after_seconds(seconds)}
        return self._database.write(lambda connection: connection.execute(take.values(**values)).scalar())

    def release(self, name: str, token: int) -> None:
        own = update(schema.leases).where(E.name == name, E.token == token).values(expires_at=0)
        self._database.write(lambda connection: connection.execute(own))

    def is_any_held(self, prefix: str) -> bool:
        """Return whether any server holds a lease whose name begins so."""
        held = select(E.name).where(E.name.startswith(prefix, autoescape=True), E.expires_at >= database_now())
        with self._database.read() as connection:
            return connection.execute(held.limit(1)).first() is not None

    def _ensure_row(self, name: str) -> None:
        with self._database.read() as connection:
            if connection.execute(select(E.name).where(E.name == name)).first() is not None:
                return
        self._database.write(lambda connection: _insert_row(connection, name))


def _insert_row(connection: Connection, name: str) -> None:
    # Another server may insert it at the same time.
    connection.execute(
        insert_if_absent(schema.leases, connection.dialect.name).values(name=name, holder="", token=0, expires_at=0)
    )


def require_lease(connection: Connection, name: str, token: int) -> None:
    """Raise NotNow if the lease was taken by another server since this token was issued."""
    held = select(E.token).where(E.name == name, E.token == token).with_for_update()
    if connection.execute(held).first() is None:
        raise NotNow(f"Another server has taken the lease '{name}'")
