"""PostgreSQL database: a pool of connections, writes that run side by side, and retries before the commit."""

from __future__ import annotations

import random
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.pool import QueuePool

from knowledge import failpoints
from knowledge.errors import DatabaseFailed, InvalidParameter, StorageFailed
from knowledge.store import migrate
from knowledge.store.column_types import dump_json
from knowledge.store.database import LookAgain, T, Work
from knowledge.store.postgres import failures, locks
from knowledge.store.postgres.failures import DRIVER_ERRORS
from knowledge.store.transfer.copy_file import copy_into_file

DRIVER_NAME = "postgresql+psycopg"
ACCEPTED_DRIVER_NAMES = (DRIVER_NAME, "postgresql", "postgres")
MIN_SERVER_VERSION = 14
"""Has client_connection_check_interval, which ends the transaction of a server that is gone."""

IDLE_IN_TRANSACTION_SECONDS = 10
"""PostgreSQL ends a write transaction that is idle for so long and with it its locks: a frozen server delays the
others by at most this time and a moment for the kill."""
IDLE_IN_SNAPSHOT_SECONDS = 60
"""Longer than writing one batch of a backup takes between two statements of its snapshot."""
LOCK_TIMEOUT_SECONDS = 15
"""Longer than IDLE_IN_TRANSACTION_SECONDS, so that who waits for a frozen server gets the lock at the first try."""
STATEMENT_TIMEOUT_SECONDS = 600
KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_COUNT = 5, 2, 3
"""A connection whose other end is gone without a word is closed after 11 s; the defaults take two hours."""
CONNECT_SECONDS = 10
RETRY_SECONDS = 20.0
"""How long a write is tried again after lost connections and conflicts."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.01, 1.0
MAX_RACES = 20
"""Attempts of a write that loses races for a unique constraint; each of them sees what the others have committed."""
READER_CONNECTIONS, MAX_READER_CONNECTIONS = 4, 20
WRITER_CONNECTIONS, MAX_WRITER_CONNECTIONS = 4, 12
POOL_WAIT_SECONDS = 30.0


class UncachedTableVersion:
    """A version that never repeats, because the commits of other servers are not seen here."""

    def __init__(self) -> None:
        self._numbers = count(1)

    @property
    def version(self) -> int:
        return next(self._numbers)


class PostgresDatabase:
    """A Database that several servers share; each `write` is a transaction of its own."""

    path: Path | None = None
    """There is no database file."""

    def __init__(self, url: str) -> None:
        self._url = parse_database_url(url)
        self._closed = False
        self._writers = self._open_engine(
            WRITER_CONNECTIONS, MAX_WRITER_CONNECTIONS, IDLE_IN_TRANSACTION_SECONDS, isolation="READ COMMITTED"
        )
        self._readers = self._open_engine(
            READER_CONNECTIONS, MAX_READER_CONNECTIONS, IDLE_IN_SNAPSHOT_SECONDS, isolation="AUTOCOMMIT"
        )
        self._snapshots = self._readers.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        try:
            with self._writers.begin() as connection:
                self.product = f"PostgreSQL {check_server_version(connection)}"
                migrate.upgrade_shared_database(connection)
        except BaseException as error:
            self.close()
            if isinstance(error, DRIVER_ERRORS):
                raise failures.wrap_postgres_error(error, self._url) from error
            raise

    def _open_engine(self, size: int, most: int, idle_seconds: int, *, isolation: str) -> Engine:
        options = {
            "application_name": "knowledge-server",
            "timezone": "UTC",
            "idle_in_transaction_session_timeout": f"{idle_seconds}s",
            "lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s",
            "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
            "client_connection_check_interval": "5s",
            "tcp_keepalives_idle": KEEPALIVE_IDLE_SECONDS,
            "tcp_keepalives_interval": KEEPALIVE_INTERVAL_SECONDS,
            "tcp_keepalives_count": KEEPALIVE_COUNT,
        }
        arguments: dict[str, Any] = {
            "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
            "connect_timeout": CONNECT_SECONDS,
            "keepalives_idle": KEEPALIVE_IDLE_SECONDS,
            "keepalives_interval": KEEPALIVE_INTERVAL_SECONDS,
            "keepalives_count": KEEPALIVE_COUNT,
        }
        engine = create_engine(
            self._url,
            connect_args=arguments,
            isolation_level=isolation,
            poolclass=QueuePool,
            pool_size=size,
            max_overflow=most - size,
            pool_timeout=POOL_WAIT_SECONDS,
            json_serializer=dump_json,
        )
        event.listen(engine, "checkout", _reject_closed_connection)
        return engine

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._connect(self._readers) as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        with self._connect(self._snapshots) as connection:
            yield connection

    @contextmanager
    def _connect(self, engine: Engine) -> Iterator[Connection]:
        try:
            with engine.connect() as connection:
                yield connection
        except DRIVER_ERRORS as error:
            raise failures.wrap_postgres_error(error, self._url) from error

    def write(self, work: Work[T], *, is_idempotent: bool = False) -> T:
        if self._closed:
            raise StorageFailed("The database is closed")
        deadline = time.monotonic() + RETRY_SECONDS
        pause, races = FIRST_PAUSE_SECONDS, 0
        while True:
            try:
                return self._run_transaction(work, is_idempotent)
            except (*DRIVER_ERRORS, LookAgain) as error:
                raced = failures.is_raced(error)
                races += raced
                may_retry = raced or failures.is_rolled_back(error) or failures.is_connection_lost(error)
                if not may_retry or races >= MAX_RACES or time.monotonic() > deadline:
                    raise failures.wrap_postgres_error(error, self._url) from error
            if not raced:
                time.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _run_transaction(self, work: Work[T], is_idempotent: bool) -> T:
        with self._writers.connect() as connection:
            locks.begin_transaction(connection)
            value = work(connection)  # an exception rolls back when the connection returns to the pool
            locks.end_transaction(connection)
            failpoints.trigger("store.uncommitted")
            if _is_closed_by_server(connection.connection.driver_connection):  # for example after a long freeze
                connection.invalidate()
                raise failures.ConnectionEnded
            try:
                connection.commit()
            except DRIVER_ERRORS as error:
                if is_idempotent or failures.is_rolled_back(error) or not failures.is_connection_lost(error):
                    raise
                raise failures.make_unknown_commit_error(self._url) from error
            failpoints.trigger("store.committed")
            return value

    def watch_tables(self, *_tables: Table) -> UncachedTableVersion:
        return UncachedTableVersion()

    def size_bytes(self) -> int:
        with self.read() as connection:
            return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())

    def copy_to(self, target: Path) -> None:
        """Write one snapshot of all rows into a SQLite file."""
        with self.snapshot() as connection:
            copy_into_file(connection, target)

    def sweep_copies(self) -> None:
        """Do nothing: no copies are made."""

    def close(self) -> None:
        self._closed = True
        self._writers.dispose()
        self._readers.dispose()


def parse_database_url(text: str) -> URL:
    """Parse KNOWLEDGE_DATABASE_URL; the error does not repeat it, because it contains a password."""
    hint = "Write it as postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE."
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError) as error:
        raise _invalid_url("cannot be parsed", hint) from error
    if url.drivername not in ACCEPTED_DRIVER_NAMES:
        raise _invalid_url(f"begins with '{url.drivername}'", hint)
    if not url.database:
        raise _invalid_url("names no database", hint)
    return url.set(drivername=DRIVER_NAME)


def _invalid_url(problem: str, hint: str) -> InvalidParameter:
    return InvalidParameter(
        f"The setting KNOWLEDGE_DATABASE_URL is invalid: it {problem}", hint=hint, parameter="database_url"
    )


def check_server_version(connection: Connection) -> str:
    """Return the version of the server, or reject one that is too old."""
    version = str(connection.exec_driver_sql("SHOW server_version").scalar_one()).split()[0]
    reject_old_server(int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()), version)
    return version


def reject_old_server(number: int, version: str) -> None:
    """Raise DatabaseFailed for a server_version_num below MIN_SERVER_VERSION."""
    if number // 10_000 < MIN_SERVER_VERSION:
        raise DatabaseFailed(
            f"PostgreSQL {version} is too old; {MIN_SERVER_VERSION} or newer is required",
            hint="Upgrade the PostgreSQL server.",
            server_version=version,
        )


def _is_closed_by_server(connection: Any) -> bool:
    """Return whether the server has sent something unasked, which is its last word when it ends a connection."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connection.fileno()], [], [], 0)[0])
    poll = select.poll()  # select() rejects descriptors above 1023, which a busy server has
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _reject_closed_connection(connection: Any, _record: object, _proxy: object) -> None:
    """Replace a pooled connection that the server has closed."""
    if _is_closed_by_server(connection):
        raise InvalidatePoolError("the server has closed the connection")
