"""A prepared statement says what the library would say, and what goes wrong in it is told in the same words."""

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
ADD = PreparedStatement(insert(schema.collections))
BY_NAME = select(schema.collections).where(C.name == bindparam("named"), C.owner_id == 0).order_by(C.id)
RENAME = PreparedStatement(
    update(schema.collections).where(C.name == bindparam("old")).returning(C.id, C.uid, C.metadata)
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "knowledge.db")
    yield opened
    opened.close()


def shelf(name: str) -> dict[str, Any]:
    return {
        "uid": new_uid(), "owner_id": 0, "name": name, "title": "Ein Regal", "description": "", "source_type": "",
        "url": None, "metadata": {"größe": [1, None, 2.5]}, "created_at": 1, "updated_at": 2,
    }  # fmt: skip


def test_values_go_in_and_come_out_as_they_do_through_the_library(database: SqliteDatabase) -> None:
    given = shelf("one")
    number = database.write(lambda connection: ADD.insert(connection, given))
    with database.read() as connection:
        theirs = connection.execute(BY_NAME, {"named": "one"}).one()
        ours = PreparedStatement(BY_NAME).fetch_first(connection, {"named": "one"})
        assert PreparedStatement(BY_NAME).fetch_first(connection, {"named": "two"}) is None
        assert PreparedStatement(select(C.title)).fetch_scalar(connection, {}) == "Ein Regal"
    assert ours is not None
    assert (ours.id, ours.uid, ours.metadata) == (number, given["uid"], given["metadata"])
    assert tuple(ours) == tuple(theirs)


def test_many_go_in_at_once_and_what_is_changed_comes_back(database: SqliteDatabase) -> None:
    def work(connection: Connection) -> list[Any]:
        ADD.run_many(connection, [shelf("a"), shelf("b")])
        ADD.run_many(connection, [])
        return RENAME.fetch_all(connection, {"old": "b", "name": "c"})

    assert [(row.id, row.metadata) for row in database.write(work)] == [(2, {"größe": [1, None, 2.5]})]
    with database.read() as connection:
        assert [row.name for row in PreparedStatement(select(C.name).order_by(C.id)).fetch_all(connection, {})] == [
            "a",
            "c",
        ]


def test_a_value_too_many_is_refused_rather_than_forgotten(database: SqliteDatabase) -> None:
    database.write(lambda connection: ADD.insert(connection, shelf("a")))
    with pytest.raises(TypeError, match="values are wanted"):
        database.write(lambda connection: ADD.insert(connection, {**shelf("b"), "colour": "red"}))


def test_a_statement_that_fails_undoes_its_piece_and_says_so(database: SqliteDatabase) -> None:
    def twice(connection: Connection) -> None:
        ADD.insert(connection, shelf("a"))
        ADD.insert(connection, shelf("a"))

    with pytest.raises(DatabaseFailed, match="UNIQUE"):
        database.write(twice)
    with pytest.raises(DatabaseFailed), database.read() as connection:
        ADD.insert(connection, {**shelf("a"), "title": None})
    with database.read() as connection:
        assert PreparedStatement(select(C.id)).fetch_all(connection, {}) == []


def test_an_upsert_replaces_the_values_of_a_row_that_is_there(database: SqliteDatabase) -> None:
    settings = upsert(schema.settings, "sqlite")
    for rows in ([("a", "1"), ("b", "2")], [("b", "3"), ("c", "4")]):
        given = [{"name": name, "value": value} for name, value in rows]
        database.write(lambda connection, given=given: connection.execute(settings, given))  # type: ignore[misc]
    with database.read() as connection:
        found = connection.execute(select(schema.settings).order_by(schema.settings.c.name)).all()
    assert [tuple(row) for row in found if len(row.name) == 1] == [("a", "1"), ("b", "3"), ("c", "4")]


def test_an_upsert_says_the_same_to_postgresql() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    sql = str(upsert(schema.vectors, "postgresql").compile(dialect=dialect))
    assert "ON CONFLICT (chunk_id, model_id) DO UPDATE SET data = excluded.data" in sql
