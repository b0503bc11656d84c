"""Databases of earlier versions are brought forward, with nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from knowledge.model import Scope
from knowledge.store import migrate, schema
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from tests.old_folders import DUMPS, lay_out, schema_of

VERSIONS = sorted(path.name[:4] for path in (migrate.MIGRATIONS / "versions").glob("[0-9]*.py"))
every_dump = pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)


def test_the_newest_migration_is_the_schema_of_the_program() -> None:
    assert VERSIONS[-1] == migrate.SCHEMA


def test_a_folder_of_every_earlier_schema_is_kept() -> None:
    assert {schema_of(dump) for dump in DUMPS} >= set(VERSIONS[:-1])


@every_dump
def test_an_old_database_opens_with_all_that_it_held(dump: Path, tmp_path: Path) -> None:
    database = Database(lay_out(dump, tmp_path))
    document = DocumentStore(database).find(1, Scope())
    database.close()
    assert document.title == "Old tea"
    assert bool(list(tmp_path.glob("*-before-*.db"))) == (schema_of(dump) != migrate.SCHEMA), "a copy was made before"
    assert not list(tmp_path.glob("*.part"))


@every_dump
def test_a_database_brought_forward_is_the_same_as_a_new_one(dump: Path, tmp_path: Path) -> None:
    old, new = lay_out(dump, tmp_path / "old"), tmp_path / "new.db"
    for path in (old, new):
        Database(path).close()
    assert shape(old) == shape(new)
    assert set(shape(new)) == {*schema.metadata.tables, "alembic_version"}


def shape(path: Path) -> dict[str, object]:
    """Tables with their columns, keys and indexes, as the database itself tells them."""
    engine = create_engine(f"sqlite:///{path}")
    found = inspect(engine)
    told: dict[str, object] = {
        table: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(table)],
            found.get_pk_constraint(table)["constrained_columns"],
            sorted(str(index["column_names"]) for index in found.get_indexes(table)),
            sorted(str(unique["column_names"]) for unique in found.get_unique_constraints(table)),
        )
        for table in found.get_table_names()
    }
    engine.dispose()
    return told
