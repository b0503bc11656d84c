"""The SQLite database: group commit, isolation of failed writes, snapshots, and schema versions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from knowledge.errors import InvalidParameter, StorageFailed
from knowledge.store.migrate import MIGRATIONS_FOLDER, SCHEMA_VERSION
from knowledge.store.sqlite import SqliteDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "knowledge.db")
    yield opened
    opened.close()


def make_insert(name: str) -> object:
    def work(connection: Connection) -> None:
        connection.execute(text("INSERT INTO settings VALUES (:name, 'x')"), {"name": name})

    return work


def list_names(database: SqliteDatabase) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(text("SELECT name FROM settings")).scalars())


def test_a_write_is_visible_to_readers(database: SqliteDatabase) -> None:
    database.write(make_insert("a"))  # type: ignore[arg-type]
    assert list_names(database) == {"a"}


def test_a_failing_write_is_rolled_back_alone(database: SqliteDatabase) -> None:
    gate = threading.Event()

    def slow(connection: Connection) -> None:
        gate.wait(10)

    def fail(connection: Connection) -> None:
        make_insert("half")(connection)  # type: ignore[operator]
        raise InvalidParameter("no")

    results: list[BaseException | None] = []

    def attempt(work: object) -> None:
        try:
            database.write(work)  # type: ignore[arg-type]
            results.append(None)
        except InvalidParameter as error:
            results.append(error)

    works: list[object] = [slow, make_insert("good"), fail, make_insert("better")]
    threads = [threading.Thread(target=attempt, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert list_names(database) == {"good", "better"}
    assert sum(result is not None for result in results) == 1


def test_concurrent_writes_are_all_committed(database: SqliteDatabase) -> None:
    def write(number: int) -> None:
        for step in range(20):
            database.write(make_insert(f"{number}-{step}"))  # type: ignore[arg-type]

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list_names(database)) == 320


def test_a_snapshot_does_not_see_later_commits(database: SqliteDatabase) -> None:
    with database.snapshot() as connection:
        before = connection.execute(text("SELECT count(*) FROM settings")).scalar()
        database.write(make_insert("later"))  # type: ignore[arg-type]
        assert connection.execute(text("SELECT count(*) FROM settings")).scalar() == before
    assert list_names(database) == {"later"}


def test_a_closed_database_rejects_writes(database: SqliteDatabase) -> None:
    database.close()
    with pytest.raises(StorageFailed):
        database.write(make_insert("x"))  # type: ignore[arg-type]


def test_a_database_with_a_newer_schema_is_rejected_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    SqliteDatabase(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageFailed, match="newer version"):
        SqliteDatabase(path)
    assert path.read_bytes() == before


def test_the_schema_version_is_the_newest_migration() -> None:
    newest = max(path.name for path in (MIGRATIONS_FOLDER / "versions").glob("[0-9]*.py"))
    assert newest.startswith(SCHEMA_VERSION)
