"""Prepared statements return the same rows and errors as SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql

from knowledge.errors import DatabaseFailed
from knowledge.model import new_uid
from knowledge.store import schema
from knowledge.store.prepared_statements import PreparedStatement, upsert
from knowledge.store.sqlite import SqliteDatabase

C = schema.collections.c
INSERT = PreparedStatement(insert(schema.collections))
BY_NAME = select(schema.collections).where(C.name == bindparam("named"), C.owner_id == 0).order_by(C.id)
RENAME = PreparedStatement(
    update(schema.collections).where(C.name == bindparam("old")).returning(C.id, C.uid, C.metadata)
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "knowledge.db")
    yield opened
    opened.close()


def make_row(name: str) -> dict[str, Any]:
    return {
        "uid": new_uid(), "owner_id": 0, "name": name, "title": "Ein Regal", "description": "", "source_type": "",
        "url": None, "metadata": {"größe": [1, None, 2.5]}, "created_at": 1, "updated_at": 2,
    }  # fmt: skip


def test_rows_are_the_same_as_through_sqlalchemy(database: SqliteDatabase) -> None:
    given = make_row("one")
    number = database.write(lambda connection: INSERT.insert(connection, given))
    with database.read() as connection:
        theirs = connection.execute(BY_NAME, {"named": "one"}).one()
        ours = PreparedStatement(BY_NAME).fetch_first(connection, {"named": "one"})
        assert PreparedStatement(BY_NAME).fetch_first(connection, {"named": "two"}) is None
        assert PreparedStatement(select(C.title)).fetch_scalar(connection, {}) == "Ein Regal"
    assert ours is not None
    assert (ours.id, ours.uid, ours.metadata) == (number, given["uid"], given["metadata"])
    assert tuple(ours) == tuple(theirs)


def test_run_many_inserts_rows_and_returning_returns_them(database: SqliteDatabase) -> None:
    def work(connection: Connection) -> list[Any]:
        INSERT.run_many(connection, [make_row("a"), make_row("b")])
        INSERT.run_many(connection, [])
        return RENAME.fetch_all(connection, {"old": "b", "name": "c"})

    assert [(row.id, row.metadata) for row in database.write(work)] == [(2, {"größe": [1, None, 2.5]})]
    with database.read() as connection:
        assert [row.name for row in PreparedStatement(select(C.name).order_by(C.id)).fetch_all(connection, {})] == [
            "a",
            "c",
        ]


def test_an_unknown_value_is_rejected(database: SqliteDatabase) -> None:
    database.write(lambda connection: INSERT.insert(connection, make_row("a")))
    with pytest.raises(TypeError, match="expected 10 values"):
        database.write(lambda connection: INSERT.insert(connection, {**make_row("b"), "colour": "red"}))


def test_a_failing_statement_is_rolled_back_and_raises_a_database_error(database: SqliteDatabase) -> None:
    def twice(connection: Connection) -> None:
        INSERT.insert(connection, make_row("a"))
        INSERT.insert(connection, make_row("a"))

    with pytest.raises(DatabaseFailed, match="UNIQUE"):
        database.write(twice)
    with pytest.raises(DatabaseFailed), database.read() as connection:
        INSERT.insert(connection, {**make_row("a"), "title": None})
    with database.read() as connection:
        assert PreparedStatement(select(C.id)).fetch_all(connection, {}) == []


def test_an_upsert_updates_existing_rows(database: SqliteDatabase) -> None:
    settings = upsert(schema.settings, "sqlite")
    for rows in ([("a", "1"), ("b", "2")], [("b", "3"), ("c", "4")]):
        given = [{"name": name, "value": value} for name, value in rows]
        database.write(lambda connection, given=given: connection.execute(settings, given))  # type: ignore[misc]
    with database.read() as connection:
        found = connection.execute(select(schema.settings).order_by(schema.settings.c.name)).all()
    assert [tuple(row) for row in found if len(row.name) == 1] == [("a", "1"), ("b", "3"), ("c", "4")]


def test_an_upsert_compiles_for_postgresql() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    sql = str(upsert(schema.vectors, "postgresql").compile(dialect=dialect))
    assert "ON CONFLICT (chunk_id, model_id) DO UPDATE SET data = excluded.data" in sql
