"""PostgreSQL behind the Database protocol: transactions, retries, lost connections, and clear errors."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, func, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from knowledge.errors import DatabaseFailed, DiskFull, InvalidParameter, KnowledgeError, StorageFailed
from knowledge.model import JobKind, Scope, new_uid
from knowledge.store import migrate, schema
from knowledge.store.accounts.quotas import Quota
from knowledge.store.changes import ChangeLog, record_change
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.rows import NewJob
from knowledge.store.postgres import postgres as postgres_module
from knowledge.store.postgres.postgres import MIN_SERVER_VERSION, PostgresDatabase, reject_old_server
from tests.support.postgres import (
    PASSWORD,
    PostgresServer,
    find_binaries,
    find_free_port,
    find_unprivileged_id,
    run_postgres,
)

S = schema.settings.c
LIMIT_SECONDS = 60.0
BACKEND = text("SELECT pg_backend_pid()")


def add_name(connection: Connection, name: str) -> None:
    connection.execute(insert(schema.settings).values(name=name, value=""))


def list_names(database: PostgresDatabase) -> list[str]:
    with database.read() as connection:
        return list(connection.execute(select(S.name).order_by(S.name)).scalars())


def terminate(postgres: PostgresServer, backend: int) -> None:
    postgres.run(f"SELECT pg_terminate_backend({backend}, 5000)")


# -- transactions -------------------------------------------------------------------------------


def test_a_failing_write_is_rolled_back(database: PostgresDatabase) -> None:
    def fail(connection: Connection) -> None:
        add_name(connection, "a")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.write(fail)
    assert list_names(database) == []


def test_a_snapshot_does_not_see_later_commits_and_cannot_write(database: PostgresDatabase) -> None:
    count = select(func.count()).select_from(schema.settings)
    with database.snapshot() as connection:
        assert connection.execute(count).scalar_one() == 0
        database.write(lambda writing: add_name(writing, "a"))
        assert connection.execute(count).scalar_one() == 0
    with pytest.raises(DatabaseFailed, match="read-only"), database.snapshot() as connection:
        add_name(connection, "b")
    assert list_names(database) == ["a"]


def test_a_read_sees_what_was_committed_meanwhile(database: PostgresDatabase) -> None:
    count = select(func.count()).select_from(schema.settings)
    with database.read() as connection:
        assert connection.execute(count).scalar_one() == 0
        database.write(lambda writing: add_name(writing, "a"))
        assert connection.execute(count).scalar_one() == 1


def test_a_closed_database_rejects_writes(database: PostgresDatabase) -> None:
    database.close()
    with pytest.raises(StorageFailed, match="closed"):
        database.write(lambda connection: add_name(connection, "a"))


def test_a_deadlock_is_resolved_and_both_writes_are_done(database: PostgresDatabase) -> None:
    for name in ("a", "b"):
        database.write(lambda connection, name=name: add_name(connection, name))  # type: ignore[misc]
    both_have_one = threading.Barrier(2)
    first_try = threading.local()

    def change(first: str, second: str) -> None:
        def work(connection: Connection) -> None:
            values = text("UPDATE settings SET value = value || 'x' WHERE name = :name")
            connection.execute(values, {"name": first})
            if not getattr(first_try, "done", False):
                first_try.done = True
                both_have_one.wait(LIMIT_SECONDS)
            connection.execute(values, {"name": second})

        database.write(work)

    with ThreadPoolExecutor(2) as pool:
        for running in [pool.submit(change, "a", "b"), pool.submit(change, "b", "a")]:
            running.result(LIMIT_SECONDS)
    with database.read() as connection:
        assert set(connection.execute(select(S.value)).scalars()) == {"xx"}


# -- lost connections ---------------------------------------------------------------------------


def test_a_write_whose_connection_is_lost_before_the_commit_is_done_once(
    postgres: PostgresServer, database: PostgresDatabase
) -> None:
    attempts: list[int] = []

    def work(connection: Connection) -> None:
        attempts.append(connection.execute(BACKEND).scalar_one())
        add_name(connection, "a")
        if len(attempts) == 1:
            terminate(postgres, attempts[0])
            connection.execute(BACKEND)

    database.write(work)
    assert len(attempts) == 2 and list_names(database) == ["a"]


def test_idle_connections_that_the_server_has_closed_are_replaced(
    postgres: PostgresServer, database: PostgresDatabase
) -> None:
    with database.read() as connection:
        backend = connection.execute(BACKEND).scalar_one()
    terminate(postgres, backend)
    assert list_names(database) == []


def test_reads_and_writes_go_on_after_a_restart_of_the_server() -> None:
    binaries = find_binaries()
    assert binaries is not None
    with run_postgres(binaries) as server, server.database() as url:
        database = PostgresDatabase(url)
        database.write(lambda connection: add_name(connection, "a"))
        restarting = threading.Thread(target=server.restart)
        restarting.start()
        for number in range(50):
            database.write(lambda connection, number=number: add_name(connection, f"n{number}"))  # type: ignore[misc]
        restarting.join()
        assert len(list_names(database)) == 51
        database.close()


class Proxy:
    """Forwards a connection to PostgreSQL and cuts it when a commit was sent, before the answer is forwarded."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.armed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                cut = threading.Event()
                threading.Thread(target=self._forward, args=(client, server, cut, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, cut, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, cut: threading.Event, is_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if is_client and b"COMMIT\0" in data and self.armed.is_set():
                    self.armed.clear()
                    cut.set()
                elif not is_client and cut.is_set():  # the answer to the commit: it was done, and nobody hears of it
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            each.close()


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    opened = Proxy(postgres.port)
    yield opened
    opened.close()


@contextmanager
def open_through(proxy: Proxy, url: str, port: int) -> Iterator[PostgresDatabase]:
    opened = PostgresDatabase(url.replace(f":{port}/", f":{proxy.port}/"))
    try:
        yield opened
    finally:
        opened.close()


def test_a_document_is_accepted_once_when_the_answer_to_the_commit_is_lost(
    postgres: PostgresServer, database: PostgresDatabase, database_url: str, proxy: Proxy
) -> None:
    job = NewJob(new_uid(), JobKind.ADD, 0, None, "tea.txt", {"size": 3}, "a" * 64, 10)
    with open_through(proxy, database_url, postgres.port) as cut:
        proxy.armed.set()
        queued = DocumentQueue(cut).add_new(job, "tea", None, 3, Quota(), Scope())
    assert not proxy.armed.is_set(), "the commit was cut off"
    with database.read() as connection:
        assert connection.execute(select(schema.jobs.c.id)).scalars().all() == [queued.id]


def test_an_unknown_commit_of_other_writes_is_reported_and_not_repeated(
    postgres: PostgresServer, database: PostgresDatabase, database_url: str, proxy: Proxy
) -> None:
    with open_through(proxy, database_url, postgres.port) as cut:
        proxy.armed.set()
        with pytest.raises(DatabaseFailed, match="unknown whether"):
            cut.write(lambda connection: record_change(connection, 1))
    with database.read() as connection:
        assert connection.execute(select(schema.changes.c.document_id)).scalars().all() == [1]


FREEZE = """
import sys
from knowledge.store.changes import record_change
from knowledge.store.postgres.postgres import PostgresDatabase
database = PostgresDatabase(sys.argv[1])
attempts = []
def work(connection):
    attempts.append(1)
    record_change(connection, 1)
    if len(attempts) == 1:
        print("locked", flush=True)
        sys.stdin.readline()
    return len(attempts)
print(database.write(work), flush=True)
database.close()
"""


def test_a_frozen_server_that_holds_the_log_lock_delays_others_by_at_most_20_seconds(
    database: PostgresDatabase, database_url: str
) -> None:
    command = [sys.executable, "-c", FREEZE, database_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as frozen:
        assert frozen.stdout is not None and frozen.stdin is not None
        assert frozen.stdout.readline() == "locked\n"
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            database.write(lambda connection: record_change(connection, 2))
            waited = time.monotonic() - began
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        assert waited <= 20, waited
        frozen.stdin.write("\n")
        frozen.stdin.close()
        assert frozen.stdout.readline() == "2\n", "its write was rolled back, and done again when it woke"
    batch = ChangeLog(database).read_after(0, 10)
    assert batch is not None and batch.documents == (2, 1)


def test_the_limits_against_frozen_and_lost_servers_are_set(database: PostgresDatabase) -> None:
    names = ("idle_in_transaction_session_timeout", "lock_timeout", "tcp_keepalives_idle",
             "client_connection_check_interval", "TimeZone")  # fmt: skip
    with database._writers.connect() as connection:
        values = [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]
    assert values == ["10s", "15s", "5", "5s", "UTC"]


# -- errors -------------------------------------------------------------------------------------


def explain(url: str) -> KnowledgeError:
    """Return the error of opening a database; none contains the password, in its text or its hint."""
    with pytest.raises(KnowledgeError) as refused:
        PostgresDatabase(url)
    shown = f"{refused.value} {refused.value.hint} {refused.value.details}"
    assert PASSWORD not in shown and "s3cret" not in shown
    return refused.value


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("no url s3cret", "cannot be parsed"),
        ("mysql://ada:s3cret@db/knowledge", "begins with 'mysql'"),
        ("postgresql+psycopg2://ada:s3cret@db/knowledge", "begins with 'postgresql\\+psycopg2'"),
        ("postgresql+psycopg://ada:s3cret@db", "names no database"),
        ("postgresql+psycopg://ada:s3cret@db:port/knowledge", "cannot be parsed"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_it(url: str, says: str) -> None:
    with pytest.raises(InvalidParameter, match=says) as refused:
        PostgresDatabase(url)
    assert "s3cret" not in str(refused.value) and "postgresql+psycopg://" in refused.value.hint


def test_a_wrong_password_is_a_sentence(postgres: PostgresServer) -> None:
    error = explain(postgres.make_url("postgres", password="s3cret"))
    assert "password authentication failed" in str(error) and "user and the password" in error.hint


def test_an_unreachable_server_is_a_sentence() -> None:
    port = find_free_port()
    error = explain(f"postgresql+psycopg://ada:s3cret@127.0.0.1:{port}/knowledge")
    assert str(error) == f"PostgreSQL at 127.0.0.1:{port} cannot be reached: Connection refused"
    assert "KNOWLEDGE_DATABASE_URL" in error.hint


def test_an_unknown_host_is_a_sentence() -> None:
    error = explain("postgresql+psycopg://ada:s3cret@no-such-host.invalid/knowledge")
    assert "cannot be reached" in str(error) and "no-such-host.invalid" in str(error)


def test_a_missing_database_is_a_sentence(postgres: PostgresServer) -> None:
    error = explain(postgres.make_url("nowhere"))
    assert "does not exist" in str(error) and "Create the database" in error.hint


def test_missing_rights_are_a_sentence(postgres: PostgresServer) -> None:
    user = f"u{new_uid().hex[:8]}"
    postgres.run(f"CREATE ROLE {user} LOGIN PASSWORD 's3cret'")
    with postgres.database(empty=True) as url:
        error = explain(postgres.make_url(url.rsplit("/", 1)[1], user=user, password="s3cret"))
        assert "lacks rights" in str(error) and "GRANT CREATE" in error.hint
    postgres.run(f"DROP ROLE {user}")


def test_a_read_only_server_is_a_sentence(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        name = url.rsplit("/", 1)[1]
        postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        database = PostgresDatabase(url)
        with pytest.raises(DatabaseFailed, match="read-only") as refused:
            database.write(lambda connection: add_name(connection, "a"))
        assert "primary" in refused.value.hint
        database.close()


@pytest.mark.parametrize(("number", "version"), [(130_012, "13.12"), (90_600, "9.6")])
def test_a_server_that_is_too_old_is_a_sentence(number: int, version: str) -> None:
    with pytest.raises(DatabaseFailed, match=f"PostgreSQL {version} is too old; {MIN_SERVER_VERSION} or newer"):
        reject_old_server(number, version)
    reject_old_server(140_000, "14.0")


def test_too_many_connections_are_a_sentence(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        postgres.run(f"ALTER DATABASE {url.rsplit('/', 1)[1]} CONNECTION LIMIT 0")
        user = f"u{new_uid().hex[:8]}"
        postgres.run(f"CREATE ROLE {user} LOGIN PASSWORD 's3cret'")
        error = explain(postgres.make_url(url.rsplit("/", 1)[1], user=user, password="s3cret"))
        postgres.run(f"DROP ROLE {user}")
    assert "too many connections" in str(error) and "max_connections" in error.hint


RANDOM_TEXT = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 900000) i"
can_mount_tmpfs = os.getuid() == 0 and shutil.which("mount") is not None


@pytest.mark.skipif(not can_mount_tmpfs, reason="filling a disk needs root, to mount a small one")
def test_a_full_disk_is_a_sentence_and_loses_nothing(postgres: PostgresServer) -> None:
    place = Path("/tmp") / f"knowledge-small-{new_uid().hex[:8]}"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0777", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        place.rmdir()
        pytest.skip("mounting a small disk is not allowed here")
    space = f"small_{new_uid().hex[:8]}"
    (place / "pg").mkdir()
    shutil.chown(place / "pg", find_unprivileged_id())
    try:
        postgres.run(f"CREATE TABLESPACE {space} LOCATION '{place}/pg'")
        with postgres.database() as url:
            postgres.run(f"ALTER DATABASE {url.rsplit('/', 1)[1]} SET TABLESPACE {space}")
            database = PostgresDatabase(url)
            database.write(lambda connection: add_name(connection, "kept"))
            big = insert(schema.settings).values(name="big", value="")
            fill = text(
                "UPDATE settings SET value = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 900000) i)"
            )
            with pytest.raises(DiskFull, match="disk of the PostgreSQL server") as refused:
                database.write(lambda connection: (connection.execute(big), connection.execute(fill)))
            assert "Free space" in refused.value.hint
            assert list_names(database) == ["kept"]
            database.close()
        postgres.run(f"DROP TABLESPACE {space}")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
        place.rmdir()


def test_no_error_of_the_driver_leaves_the_store(database: PostgresDatabase) -> None:
    with pytest.raises(DatabaseFailed, match="does not exist") as refused, database.read() as connection:
        connection.execute(text("SELECT * FROM nothing"))
    assert not isinstance(refused.value, SQLAlchemyError | psycopg.Error)


# -- the schema ---------------------------------------------------------------------------------


def set_schema(database: PostgresDatabase, version: str, compatible_from: str | None) -> None:
    def work(connection: Connection) -> None:
        connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
        connection.execute(schema.schema_compatibility.delete())
        if compatible_from is not None:
            values = {"version": version, "compatible_from": compatible_from}
            connection.execute(insert(schema.schema_compatibility).values(**values))

    database.write(work)


def test_servers_that_start_together_create_the_schema_once(postgres: PostgresServer) -> None:
    with postgres.database(empty=True) as url, ThreadPoolExecutor(4) as pool:
        opened = [running.result(LIMIT_SECONDS) for running in [pool.submit(PostgresDatabase, url) for _ in range(4)]]
        with opened[0].read() as connection:
            assert migrate.read_schema_version(connection) == migrate.SCHEMA_VERSION
        for database in opened:
            database.close()


def test_a_server_works_on_a_newer_schema_that_is_compatible(database_url: str, database: PostgresDatabase) -> None:
    set_schema(database, "9999", migrate.SCHEMA_VERSION)
    older = PostgresDatabase(database_url)
    older.write(lambda connection: add_name(connection, "a"))
    older.close()
    assert list_names(database) == ["a"]


@pytest.mark.parametrize("compatible_from", ["9998", None])
def test_a_server_refuses_a_newer_schema_that_is_not_compatible(
    database_url: str, database: PostgresDatabase, compatible_from: str | None
) -> None:
    set_schema(database, "9999", compatible_from)
    with pytest.raises(StorageFailed, match="newer version") as refused:
        PostgresDatabase(database_url)
    assert "Upgrade" in refused.value.hint


def test_the_schema_of_postgresql_keeps_no_locale_and_no_length(database: PostgresDatabase) -> None:
    query = text(
        "SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " JOIN pg_collation l ON l.oid = a.attcollation"
        " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0"
        " AND c.relname <> 'alembic_version' AND (l.collname <> 'C' OR a.atttypmod <> -1)"
    )
    with database.read() as connection:
        assert list(connection.execute(query).scalars()) == []


def test_the_pool_is_smaller_than_the_default_limit_of_postgresql() -> None:
    used = postgres_module.MAX_READER_CONNECTIONS + postgres_module.MAX_WRITER_CONNECTIONS
    assert used == 32, "the hint and the documentation name this number"
