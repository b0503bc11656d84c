"""Makes sure that nobody else uses a PostgreSQL database while its data is moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

from knowledge.errors import NotNow
from knowledge.store.cluster.servers import ServerStore
from knowledge.store.database import Database

MOVE_LOCK = 8
"""First key of the advisory lock, beside those of `postgres/locks.py`; this one is held by a session."""
_TRY_LOCK = text("SELECT pg_try_advisory_lock(:kind, 0)")
_UNLOCK = text("SELECT pg_advisory_unlock(:kind, 0)")


@contextmanager
def hold_database(database: Database, place: str) -> Iterator[None]:
    """Hold a PostgreSQL database for a move; raises NotNow while servers or another move use it."""
    with database.read() as connection:
        if not connection.execute(_TRY_LOCK, {"kind": MOVE_LOCK}).scalar_one():
            raise NotNow(f"Another command is moving data from or to {place}", hint="Wait until it has ended.")
        try:
            require_no_servers(database, place)
            yield
        finally:
            connection.execute(_UNLOCK, {"kind": MOVE_LOCK})


def require_no_servers(database: Database, place: str) -> None:
    """Raise NotNow if a server has sent a heartbeat within the last seconds."""
    live = [server for server in ServerStore(database, "").list_all() if server.is_live]
    if live:
        named = ", ".join(sorted(server.address or server.id for server in live))
        raise NotNow(
            f"{len(live)} server{'s use' if len(live) > 1 else ' uses'} {place}: {named}",
            hint="Stop all servers first; one that was killed counts as gone after 10 seconds.",
        )
