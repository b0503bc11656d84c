"""The connection to the truth: one writer thread that commits for many, and readers that never wait for it."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from knowledge import failpoints
from knowledge.errors import DatabaseFailed, DiskFull, StorageFailed
from knowledge.store import file_modes, migrate

T = TypeVar("T")
Work = Callable[[Connection], T]

PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",  # whoever was told "accepted" may pull the plug
    "PRAGMA foreign_keys=ON",
    "PRAGMA secure_delete=ON",  # freed pages are overwritten: docs/decisions/0013-deleted-from-the-disk.md
    "PRAGMA busy_timeout=10000",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA mmap_size=268435456",
)
MOST_AT_ONCE = 200
TRUNCATE_IDLE_SECONDS, TRUNCATE_BUSY_SECONDS = 2.0, 30.0
"""The write-ahead log is emptied after so long without a write, or since the first of writes that never pause: until
then it holds pages as they were before a deletion."""
TRUNCATE_AGAIN_SECONDS = 5.0
"""When it is tried again while somebody still reads from the log."""


def new_id(result: CursorResult[Any]) -> int:
    """The number that the database gave to an inserted row."""
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])


DAMAGED_HINT = (
    "Run 'knowledge verify' to see which documents are damaged; restore a backup with"
    " 'knowledge restore BACKUP --data DIR', or remove these documents and add them again."
)
DRIVER_ERRORS = (DBAPIError, sqlite3.Error)
"""What goes wrong below the library arrives as its own error or, from prepared statements, as the driver's."""


def storage_failed(error: DBAPIError | sqlite3.Error) -> StorageFailed:
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_FULL:
        return DiskFull("The disk of the data folder is full", reason=str(cause))
    if code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):  # extended codes too
        return DatabaseFailed(f"The database could not be used: {cause}", hint=DAMAGED_HINT, reason=str(cause))
    return DatabaseFailed(f"The database could not be used: {cause}", reason=str(cause))


class Database:
    """SQLite in one file. What `write` is given runs alone, in order, and is on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        file_modes.make_folder(path.parent)
        create_database_file(path)
        self._writer = sqlite_engine(path, transactions="BEGIN IMMEDIATE")
        self._readers = sqlite_engine(path, transactions=None)
        self._queue: queue.SimpleQueue[tuple[Work[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self.after_commit: list[Callable[[], None]] = []
        """Called by the writer after each commit, before those who wait for it are told."""
        try:
            migrate.upgrade(self._writer, path)
        except DBAPIError as error:
            raise storage_failed(error) from error
        self._thread = threading.Thread(target=self._serve, name="store-writer", daemon=True)
        self._thread.start()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A reader; each statement sees the newest commit."""
        try:
            with self._readers.connect() as connection:
                yield connection
        except DRIVER_ERRORS as error:
            raise storage_failed(error) from error

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A reader whose statements all see the same moment."""
        with self.read() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def write(self, work: Work[T]) -> T:
        """Run `work` on the writer and wait until it is committed; its own error undoes it alone."""
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
        names = (self.path, Path(f"{self.path}-wal"))
        return sum(name.stat().st_size for name in names if name.exists())

    def copy_to(self, target: Path) -> None:
        """A consistent copy while others read and write."""
        file_modes.create_file(target)
        source, copy = sqlite3.connect(self.path), sqlite3.connect(target)
        try:
            source.backup(copy, pages=2000)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, that no write-ahead log belongs to
        finally:
            source.close()
            copy.close()

    # -- the writer thread ----------------------------------------------------------------------

    def _serve(self) -> None:
        with self._writer.connect() as connection:
            truncation = _Truncation()
            while (batch := self._next_batch(connection, truncation)) is not None:
                self._commit(connection, batch)
                truncation.wrote()
                if truncation.is_overdue():
                    truncation.attempt(connection)
            truncation.attempt(connection)

    def _next_batch(
        self, connection: Connection, truncation: _Truncation
    ) -> list[tuple[Work[Any], Future[Any]]] | None:
        """Everything that waits, up to a limit: many writers share one sync of the disk."""
        while True:
            try:
                first = self._queue.get(timeout=truncation.wait_seconds())
                break
            except queue.Empty:
                truncation.attempt(connection)
        if first is None:
            return None
        batch = [first]
        while len(batch) < MOST_AT_ONCE and not self._queue.empty():
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
                    outcomes.append((future, *_attempt(connection, work)))
                failpoints.reached("store.uncommitted")
            failpoints.reached("store.committed")
            for told in self.after_commit:
                told()
        except Exception as error:
            failure = storage_failed(error) if isinstance(error, DRIVER_ERRORS) else error
            for _, future in batch:
                future.set_exception(failure)
            return
        for future, value, problem in outcomes:
            future.set_exception(problem) if problem else future.set_result(value)


class _Truncation:
    """When the writer empties the write-ahead log into the database and cuts it to nothing."""

    def __init__(self) -> None:
        self._since: float | None = 0.0  # what the last process left may be in the log
        self._pause = TRUNCATE_IDLE_SECONDS

    def wrote(self) -> None:
        if self._since is None:
            self._since, self._pause = time.monotonic(), TRUNCATE_IDLE_SECONDS

    def is_overdue(self) -> bool:
        return self._since is not None and time.monotonic() - self._since > TRUNCATE_BUSY_SECONDS

    def wait_seconds(self) -> float | None:
        return None if self._since is None else self._pause

    def attempt(self, connection: Connection) -> None:
        """Without waiting for readers: the writer has others to serve."""
        driver = connection.connection.cursor()
        try:
            driver.execute("PRAGMA busy_timeout=0")
            busy = bool(driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        except sqlite3.Error:  # such as a full disk; the log stays as it is and loses nothing
            busy = True
        finally:
            driver.execute("PRAGMA busy_timeout=10000")
        self._since = time.monotonic() if busy else None
        self._pause = TRUNCATE_AGAIN_SECONDS


def _attempt(connection: Connection, work: Work[Any]) -> tuple[Any, BaseException | None]:
    """Run one piece of a batch so that its failure undoes nothing but itself."""
    driver = connection.connection.cursor()  # the library's own way to a savepoint costs ten times as much
    driver.execute("SAVEPOINT piece")
    try:
        value = work(connection)
    except Exception as error:
        driver.execute("ROLLBACK TO SAVEPOINT piece")
        driver.execute("RELEASE SAVEPOINT piece")
        return None, storage_failed(error) if isinstance(error, DRIVER_ERRORS) else error
    driver.execute("RELEASE SAVEPOINT piece")
    return value, None


def create_database_file(path: Path) -> None:
    """SQLite gives its log the mode of the database, so this decides for both."""
    try:
        file_modes.create_file(path)
    except OSError as error:
        raise DatabaseFailed(f"The database could not be used: {error.strerror or error}", reason=str(error)) from error


def sqlite_engine(path: Path, transactions: str | None) -> Engine:
    """An engine on one file; we say BEGIN ourselves, since the driver's own idea of it breaks savepoints."""
    pool = (
        {"poolclass": QueuePool, "pool_size": 8, "max_overflow": 64}
        if transactions is None
        else {"poolclass": NullPool}
    )
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False, "timeout": 10}, **pool)

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
