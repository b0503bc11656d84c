"""A prepared statement says what the library would say, and what goes wrong in it is told in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, insert, select, update

from knowledge.errors import DatabaseFailed
from knowledge.model import new_uid
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.statements import Prepared

C = schema.collections.c
ADD = Prepared(insert(schema.collections))
BY_NAME = select(schema.collections).where(C.name == bindparam("named"), C.owner_id == 0).order_by(C.id)
RENAME = Prepared(update(schema.collections).where(C.name == bindparam("old")).returning(C.id, C.uid, C.metadata))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "knowledge.db")
    yield opened
    opened.close()


def shelf(name: str) -> dict[str, Any]:
    return {
        "uid": new_uid(), "owner_id": 0, "name": name, "title": "Ein Regal", "description": "", "source_type": "",
        "url": None, "metadata": {"größe": [1, None, 2.5]}, "created_at": 1, "updated_at": 2,
    }  # fmt: skip


def test_values_go_in_and_come_out_as_they_do_through_the_library(database: Database) -> None:
    given = shelf("one")
    number = database.write(lambda connection: ADD.insert(connection, given))
    with database.read() as connection:
        theirs = connection.execute(BY_NAME, {"named": "one"}).one()
        ours = Prepared(BY_NAME).first(connection, {"named": "one"})
        assert Prepared(BY_NAME).first(connection, {"named": "two"}) is None
        assert Prepared(select(C.title)).scalar(connection, {}) == "Ein Regal"
    assert ours is not None
    assert (ours.id, ours.uid, ours.metadata) == (number, given["uid"], given["metadata"])
    assert tuple(ours) == tuple(theirs)


def test_many_go_in_at_once_and_what_is_changed_comes_back(database: Database) -> None:
    def work(connection: Connection) -> list[Any]:
        ADD.many(connection, [shelf("a"), shelf("b")])
        ADD.many(connection, [])
        return RENAME.all(connection, {"old": "b", "name": "c"})

    assert [(row.id, row.metadata) for row in database.write(work)] == [(2, {"größe": [1, None, 2.5]})]
    with database.read() as connection:
        assert [row.name for row in Prepared(select(C.name).order_by(C.id)).all(connection, {})] == ["a", "c"]


def test_a_value_too_many_is_refused_rather_than_forgotten(database: Database) -> None:
    database.write(lambda connection: ADD.insert(connection, shelf("a")))
    with pytest.raises(TypeError, match="values are wanted"):
        database.write(lambda connection: ADD.insert(connection, {**shelf("b"), "colour": "red"}))


def test_a_statement_that_fails_undoes_its_piece_and_says_so(database: Database) -> None:
    def twice(connection: Connection) -> None:
        ADD.insert(connection, shelf("a"))
        ADD.insert(connection, shelf("a"))

    with pytest.raises(DatabaseFailed, match="UNIQUE"):
        database.write(twice)
    with pytest.raises(DatabaseFailed), database.read() as connection:
        ADD.insert(connection, {**shelf("a"), "title": None})
    with database.read() as connection:
        assert Prepared(select(C.id)).all(connection, {}) == []
