"""Every table of the schema is copied between SQLite and PostgreSQL without a difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select, text

from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.store.sqlite import SqliteDatabase
from knowledge.store.transfer import rows, sequences, tables
from tests.support.filled_tables import FIRST_ID, fill_tables
from tests.support.postgres import PostgresServer


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "data" / "knowledge.db")
    yield opened
    opened.close()


@pytest.fixture
def postgres_database(postgres: PostgresServer) -> Iterator[PostgresDatabase]:
    with postgres.database() as url:
        opened = PostgresDatabase(url)
        yield opened
        opened.close()


@pytest.fixture(params=["to PostgreSQL", "to SQLite"])
def pair(
    request: pytest.FixtureRequest, sqlite: SqliteDatabase, postgres_database: PostgresDatabase
) -> tuple[Database, Database]:
    """Source and target, in both directions."""
    return (sqlite, postgres_database) if request.param == "to PostgreSQL" else (postgres_database, sqlite)


def copy_all(source: Database, target: Database) -> int:
    with source.read() as connection:
        return sum(rows.copy_table(connection, target, table, lambda _: None) for table in tables.list_copied_tables())


def digest_all(database: Database) -> dict[str, tuple[int, str]]:
    with database.read() as connection:
        return {
            table.name: rows.digest_table(connection, table, lambda _: None) for table in tables.list_copied_tables()
        }


def test_every_table_arrives_with_every_value(pair: tuple[Database, Database]) -> None:
    source, target = pair
    counts = source.write(fill_tables)
    assert copy_all(source, target) == sum(count for name, count in counts.items() if name not in tables.NOT_COPIED)
    assert digest_all(source) == digest_all(target)
    for table in tables.list_copied_tables():  # and as the program reads it
        with source.read() as left, target.read() as right:
            ordered = select(table).order_by(*table.primary_key.columns)
            assert left.execute(ordered).all() == right.execute(ordered).all(), table.name


def test_every_table_is_copied_or_left_out_with_a_reason() -> None:
    copied = {table.name for table in tables.list_copied_tables()}
    assert copied | set(tables.NOT_COPIED) == set(schema.metadata.tables)
    assert not copied & set(tables.NOT_COPIED) and all(tables.NOT_COPIED.values())


def test_a_table_that_is_added_later_is_copied_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    later = MetaData()
    for table in schema.metadata.tables.values():
        table.to_metadata(later)
    Table("added_later", later, Column("id", Integer, primary_key=True))
    monkeypatch.setattr(schema, "metadata", later)
    assert "added_later" in {table.name for table in tables.list_copied_tables()}


def test_rows_that_were_copied_are_not_copied_again(pair: tuple[Database, Database]) -> None:
    source, target = pair
    source.write(fill_tables)
    assert copy_all(source, target) > 0
    assert copy_all(source, target) == 0
    more = {"id": FIRST_ID + 50, "fingerprint": "new", "name": "new", "dimension": 1, "active": False}
    source.write(lambda connection: connection.execute(insert(schema.models).values(**more)))
    assert copy_all(source, target) == 1
    assert digest_all(source) == digest_all(target)


def test_a_different_value_changes_the_digest(pair: tuple[Database, Database]) -> None:
    source, target = pair
    source.write(fill_tables)
    copy_all(source, target)
    target.write(lambda connection: connection.execute(text("UPDATE accounts SET is_disabled = NOT is_disabled")))
    left, right = digest_all(source), digest_all(target)
    assert {name for name in left if left[name] != right[name]} == {"accounts"}


def test_batches_continue_after_keys_of_several_columns(sqlite: SqliteDatabase) -> None:
    sqlite.write(lambda connection: fill_tables(connection, 6))
    tags = schema.document_tags
    with sqlite.read() as connection:
        batches = list(rows.read_batches(connection, tags, limit=2))
        every = [tuple(row) for row in connection.execute(select(tags).order_by(*tags.primary_key.columns))]
    assert [len(batch) for batch in batches] == [2, 2, 2]
    assert [row for batch in batches for row in batch] == every


def test_ids_of_deleted_rows_are_not_assigned_again(pair: tuple[Database, Database]) -> None:
    source, target = pair
    source.write(fill_tables)
    source.write(lambda connection: connection.execute(insert(schema.contents).values(id=7000, job_id=1)))
    with source.read() as connection:
        before = sequences.read_last_ids(connection)
    if source.path is None:  # PostgreSQL assigns from a sequence, which explicit ids do not move
        source.write(lambda connection: sequences.write_last_ids(connection, before))
    source.write(lambda connection: connection.execute(schema.contents.delete().where(schema.contents.c.id == 7000)))
    copy_all(source, target)
    with source.read() as connection:
        last_ids = sequences.read_last_ids(connection)
    assert last_ids["contents"] == 7000 and last_ids["documents"] == FIRST_ID + 2
    target.write(lambda connection: sequences.write_last_ids(connection, last_ids))
    added = target.write(
        lambda connection: connection.execute(insert(schema.contents).values(job_id=1)).inserted_primary_key
    )
    assert added is not None and added[0] == 7001


def test_nul_characters_of_earlier_versions_do_not_stop_the_copy(
    sqlite: SqliteDatabase, postgres_database: PostgresDatabase
) -> None:
    sqlite.write(fill_tables)
    sqlite.write(
        lambda connection: connection.exec_driver_sql(
            "UPDATE documents SET title = 'a' || char(0) || 'b', metadata = '{\"k\": \"x\\u0000y\"}'"
        )
    )
    copy_all(sqlite, postgres_database)
    assert digest_all(sqlite) == digest_all(postgres_database)
    with postgres_database.read() as connection:
        found = connection.execute(select(schema.documents.c.title, schema.documents.c.metadata)).first()
    assert found == ("ab", {"k": "xy"})
