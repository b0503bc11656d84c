"""Advisory locks for writes that check before they act; SQLite needs none, because its writes run one at a time.

A transaction takes them in this order, so that two transactions never wait for each other: collections (ascending),
then owners (ascending), then the change log, which is held only for the last statements before the commit
(docs/decisions/0036-locks.md). All of them end with the transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, text

from knowledge.store.database import Database

_LOCK = text("SELECT pg_advisory_xact_lock(:kind, :number)")
COLLECTION_LOCK, OWNER_LOCK, CHANGE_LOG_LOCK, MIGRATION_LOCK, FILE_LOCK, RATE_LIMIT_LOCK = 1, 2, 3, 4, 5, 6
"""First key of each kind of lock."""
KEY_RANGE = 1 << 31
"""The second key has 31 bits; ids that share a key only wait for each other."""
_HOLDS_CHANGE_LOG, _LAST_WORK = "knowledge_holds_change_log", "knowledge_last_work"
"""Keys in the `info` of a connection."""


def is_needed(connection: Connection) -> bool:
    """Return whether other transactions write at the same time."""
    return connection.dialect.name == "postgresql"


def begin_transaction(connection: Connection) -> None:
    """Forget the locks of the connection's last transaction."""
    connection.info.pop(_HOLDS_CHANGE_LOG, None)
    connection.info.pop(_LAST_WORK, None)


def run_last(connection: Connection, work: Callable[[Connection], object]) -> None:
    """Run `work` as the last part of the transaction if it must wait for other writers, otherwise at once."""
    if is_needed(connection):
        connection.info.setdefault(_LAST_WORK, []).append(work)
    else:
        work(connection)


def end_transaction(connection: Connection) -> None:
    """Run what was left for the end of the transaction; called just before the commit."""
    for work in connection.info.pop(_LAST_WORK, ()):
        work(connection)


def lock_collections(connection: Connection, *collection_ids: int) -> bool:
    """Wait until no other transaction changes these collections or what is in them.

    Returns whether others may have changed what was read before; in SQLite they cannot.
    """
    return _lock(connection, COLLECTION_LOCK, collection_ids)


def lock_owner(connection: Connection, owner: int) -> bool:
    """Wait until no other transaction counts or adds documents of this owner."""
    return _lock(connection, OWNER_LOCK, (owner,))


def lock_change_log(connection: Connection) -> None:
    """Wait until every earlier change is committed, so that changes are committed in the order of their numbers."""
    if not connection.info.get(_HOLDS_CHANGE_LOG) and _lock(connection, CHANGE_LOG_LOCK, (0,)):
        connection.info[_HOLDS_CHANGE_LOG] = True


def lock_migrations(connection: Connection) -> None:
    _lock(connection, MIGRATION_LOCK, (0,))


def run_with_file_lock(database: Database, sha256: str, work: Callable[[], int]) -> int:
    """Run `work` while no other server puts an original into place or deletes it; it may be run again."""

    def run(connection: Connection) -> int:
        _lock(connection, FILE_LOCK, (int(sha256[:8], 16),))
        return work()

    return database.write(run, is_idempotent=True)


def lock_rate_limit(connection: Connection, key: bytes) -> None:
    """Wait until no other server counts a call against the same limit."""
    _lock(connection, RATE_LIMIT_LOCK, (int.from_bytes(key[:4], "big"),))


def _lock(connection: Connection, kind: int, numbers: tuple[int, ...]) -> bool:
    if not is_needed(connection):
        return False
    if connection.info.get(_HOLDS_CHANGE_LOG):
        raise RuntimeError("the lock of the change log must be the last one of a transaction")
    for number in sorted({number % KEY_RANGE for number in numbers}):
        connection.execute(_LOCK, {"kind": kind, "number": number})
    return True
