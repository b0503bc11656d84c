"""Databases of earlier versions are brought forward, with nothing lost."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from knowledge.model import Scope
from knowledge.store import migrate, schema
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore

DUMPS = Path(__file__).parent.parent / "data" / "store"


def test_the_newest_migration_is_the_schema_of_the_program() -> None:
    versions = sorted(path.name[:4] for path in (migrate.MIGRATIONS / "versions").glob("[0-9]*.py"))
    assert versions[-1] == migrate.SCHEMA


@pytest.mark.parametrize("dump", sorted(DUMPS.glob("schema_*.sql")), ids=lambda path: path.stem)
def test_an_old_database_opens_with_all_that_it_held(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with sqlite3.connect(path) as old:
        old.executescript(dump.read_text())
    old.close()
    database = Database(path)
    document = DocumentStore(database).find(1, Scope())
    database.close()
    assert document.title == "Old tea"
    assert list(tmp_path.glob("*-before-*")), "a copy was made before"


@pytest.mark.parametrize("dump", sorted(DUMPS.glob("schema_*.sql")), ids=lambda path: path.stem)
def test_a_database_brought_forward_is_the_same_as_a_new_one(dump: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db") as old:
        old.executescript(dump.read_text())
    old.close()
    for name in ("old.db", "new.db"):
        Database(tmp_path / name).close()
    assert shape(tmp_path / "old.db") == shape(tmp_path / "new.db")
    assert set(shape(tmp_path / "new.db")) == {*schema.metadata.tables, "alembic_version"}


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
