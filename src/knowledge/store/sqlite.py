"""SQLite database with one writer thread (group commit) and concurrent readers."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from knowledge import failpoints
from knowledge.errors import DatabaseFailed, DiskFull, StorageFailed
from knowledge.filesystem import file_modes
from knowledge.store import migrate
from knowledge.store.column_types import dump_json
from knowledge.store.database import DAMAGED_HINT, T, Work

DATABASE_NAME = "knowledge.db"
TRIGGER_EVENTS = ("INSERT", "UPDATE", "DELETE")


class SqliteTableVersion:
    """Counts the commits that changed one of the tables, before their `write` calls return."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.version = 0
        self._touched = False
        self._tables = tables

    def create_triggers(self, connection: Connection) -> None:
        """Create temporary triggers, which exist only on the writer's connection."""
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.create_function("watched", 0, self._mark_touched)
        for table in self._tables:
            for kind in TRIGGER_EVENTS:
                driver.execute(
                    f"CREATE TEMP TRIGGER watch_{table.name}_{kind} AFTER {kind} ON main.{table.name} "
                    "BEGIN SELECT watched(); END"
                )

    def _mark_touched(self) -> None:
        self._touched = True

    def count_commit(self) -> None:
        if self._touched:
            self._touched = False
            self.version += 1


PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",  # an accepted document survives a power failure
    "PRAGMA foreign_keys=ON",
    "PRAGMA secure_delete=ON",  # freed pages are overwritten: docs/decisions/0013-deleted-from-the-disk.md
    "PRAGMA busy_timeout=10000",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA mmap_size=268435456",
)
MAX_WRITES_PER_COMMIT = 200
TRUNCATE_IDLE_SECONDS, TRUNCATE_BUSY_SECONDS = 2.0, 30.0
"""The WAL is truncated after this long without writes, or this long after the first of continuous writes, because
it contains pages from before a deletion."""
TRUNCATE_AGAIN_SECONDS = 5.0
"""Delay before the next attempt if a reader still uses the WAL."""

DRIVER_ERRORS = (DBAPIError, sqlite3.Error)
"""Errors of SQLAlchemy and, from prepared statements, of the driver."""


def wrap_driver_error(error: DBAPIError | sqlite3.Error) -> StorageFailed:
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_FULL:
        return DiskFull("The disk of the data folder is full", reason=str(cause))
    # The low byte of an extended error code is the primary code.
    if code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DatabaseFailed(f"Database error: {cause}", hint=DAMAGED_HINT, reason=str(cause))
    return DatabaseFailed(f"Database error: {cause}", reason=str(cause))


class SqliteDatabase:
    """A Database whose writes run one at a time, in order, on a writer thread."""

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path
        self.product = f"SQLite {sqlite3.sqlite_version}"
        self._path = path
        file_modes.make_folder(path.parent)
        create_database_file(path)
        self._writer = open_sqlite_engine(path, transactions="BEGIN IMMEDIATE")
        self._readers = open_sqlite_engine(path, transactions=None)
        self._queue: queue.SimpleQueue[tuple[Work[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self.after_commit: list[Callable[[], None]] = []
        """Called by the writer after each commit, before the `write` calls return."""
        try:
            migrate.upgrade_database(self._writer, path)
        except DBAPIError as error:
            raise wrap_driver_error(error) from error
        self._thread = threading.Thread(target=self._serve, name="store-writer", daemon=True)
        self._thread.start()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        try:
            with self._readers.connect() as connection:
                yield connection
        except DRIVER_ERRORS as error:
            raise wrap_driver_error(error) from error

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        with self.read() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def write(self, work: Work[T], *, is_idempotent: bool = False) -> T:  # noqa: ARG002 - a commit to a file is never unknown
        if self._closed:
            raise StorageFailed("The database is closed")
        future: Future[T] = Future()
        self._queue.put((work, future))
        return future.result()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        self._writer.dispose()
        self._readers.dispose()

    def size_bytes(self) -> int:
        names = (self._path, Path(f"{self._path}-wal"))
        return sum(name.stat().st_size for name in names if name.exists())

    def copy_to(self, target: Path) -> None:
        file_modes.create_file(target)
        source, copy = sqlite3.connect(self._path), sqlite3.connect(target)
        try:
            source.backup(copy, pages=2000)
            copy.execute("PRAGMA journal_mode=DELETE")  # a single file without a WAL
        except sqlite3.Error as error:
            raise wrap_driver_error(error) from error
        finally:
            source.close()
            copy.close()

    def sweep_copies(self) -> None:
        migrate.delete_old_copies(self._path)

    def watch_tables(self, *tables: Table) -> SqliteTableVersion:
        watch = SqliteTableVersion(tables)
        self.write(watch.create_triggers)
        self.after_commit.append(watch.count_commit)
        return watch

    # -- the writer thread ----------------------------------------------------------------------

    def _serve(self) -> None:
        with self._writer.connect() as connection:
            truncation = _WalTruncation()
            while (batch := self._next_batch(connection, truncation)) is not None:
                self._commit(connection, batch)
                truncation.record_write()
                if truncation.is_overdue():
                    truncation.truncate_log(connection)
            truncation.truncate_log(connection)

    def _next_batch(
        self, connection: Connection, truncation: _WalTruncation
    ) -> list[tuple[Work[Any], Future[Any]]] | None:
        """Take all waiting writes up to a limit, so that they share one fsync (group commit)."""
        while True:
            try:
                first = self._queue.get(timeout=truncation.wait_seconds())
                break
            except queue.Empty:
                truncation.truncate_log(connection)
        if first is None:
            return None
        batch = [first]
        while len(batch) < MAX_WRITES_PER_COMMIT and not self._queue.empty():
            item = self._queue.get()
            if item is None:
                self._queue.put(None)
                break
            batch.append(item)
        return batch

    def _commit(self, connection: Connection, batch: list[tuple[Work[Any], Future[Any]]]) -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with connection.begin():
                for work, future in batch:
                    outcomes.append((future, *_run_in_savepoint(connection, work)))
                failpoints.trigger("store.uncommitted")
            failpoints.trigger("store.committed")
            for callback in self.after_commit:
                callback()
        except Exception as error:
            failure = wrap_driver_error(error) if isinstance(error, DRIVER_ERRORS) else error
            for _, future in batch:
                future.set_exception(failure)
            return
        for future, value, problem in outcomes:
            future.set_exception(problem) if problem else future.set_result(value)


class _WalTruncation:
    """Decides when the WAL is checkpointed and truncated."""

    def __init__(self) -> None:
        self._pending_since: float | None = 0.0  # the last process may have left pages in the WAL
        self._pause_seconds = TRUNCATE_IDLE_SECONDS

    def record_write(self) -> None:
        if self._pending_since is None:
            self._pending_since, self._pause_seconds = time.monotonic(), TRUNCATE_IDLE_SECONDS

    def is_overdue(self) -> bool:
        return self._pending_since is not None and time.monotonic() - self._pending_since > TRUNCATE_BUSY_SECONDS

    def wait_seconds(self) -> float | None:
        return None if self._pending_since is None else self._pause_seconds

    def truncate_log(self, connection: Connection) -> None:
        """Checkpoint and truncate the WAL without waiting for readers, because writes are queued behind it."""
        driver = connection.connection.cursor()
        try:
            driver.execute("PRAGMA busy_timeout=0")
            busy = bool(driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        except sqlite3.Error:  # for example a full disk; the WAL stays unchanged
            busy = True
        finally:
            driver.execute("PRAGMA busy_timeout=10000")
        self._pending_since = time.monotonic() if busy else None
        self._pause_seconds = TRUNCATE_AGAIN_SECONDS


def _run_in_savepoint(connection: Connection, work: Work[Any]) -> tuple[Any, BaseException | None]:
    """Run one write of a batch in a savepoint, so that its failure does not roll back the others."""
    driver = connection.connection.cursor()  # SQLAlchemy's begin_nested costs ten times as much
    driver.execute("SAVEPOINT piece")
    try:
        value = work(connection)
    except Exception as error:
        driver.execute("ROLLBACK TO SAVEPOINT piece")
        driver.execute("RELEASE SAVEPOINT piece")
        return None, wrap_driver_error(error) if isinstance(error, DRIVER_ERRORS) else error
    driver.execute("RELEASE SAVEPOINT piece")
    return value, None


def create_database_file(path: Path) -> None:
    """Create the database file with restricted permissions, which SQLite also gives to its WAL."""
    try:
        file_modes.create_file(path)
    except OSError as error:
        raise DatabaseFailed(f"Cannot create the database: {error.strerror or error}", reason=str(error)) from error


def open_sqlite_engine(path: Path, transactions: str | None) -> Engine:
    """Open a SQLAlchemy engine with explicit BEGIN, because the driver's implicit transactions break savepoints."""
    pool = (
        {"poolclass": QueuePool, "pool_size": 8, "max_overflow": 64}
        if transactions is None
        else {"poolclass": NullPool}
    )
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"check_same_thread": False, "timeout": 10}, json_serializer=dump_json, **pool
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in PRAGMAS:
            connection.execute(pragma)

    if transactions is not None:

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql(transactions)

    return engine
