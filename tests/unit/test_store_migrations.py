"""Databases of earlier versions are migrated without loss."""

from __future__ import annotations

import sqlite3
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from knowledge.errors import StorageFailed
from knowledge.model import Scope, now
from knowledge.store import migrate, schema
from knowledge.store.accounts.api_keys import KeyStore
from knowledge.store.documents import DocumentStore
from knowledge.store.row_mapping import make_timestamp
from knowledge.store.sqlite import SqliteDatabase
from tests.support.old_folders import DUMPS, get_schema, restore_dump

VERSIONS = sorted(path.name[:4] for path in (migrate.MIGRATIONS_FOLDER / "versions").glob("[0-9]*.py"))
every_dump = pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)


def test_the_newest_migration_is_the_schema_version() -> None:
    assert VERSIONS[-1] == migrate.SCHEMA_VERSION


def test_there_is_a_dump_of_every_earlier_schema() -> None:
    assert {get_schema(dump) for dump in DUMPS} >= set(VERSIONS[:-1])


@every_dump
def test_an_old_database_is_migrated_with_its_documents_after_a_copy(dump: Path, tmp_path: Path) -> None:
    database = SqliteDatabase(restore_dump(dump, tmp_path))
    document = DocumentStore(database).find(1, Scope())
    database.close()
    assert document.title == "Old tea"
    assert bool(list(tmp_path.glob("*-before-*.db"))) == (get_schema(dump) != migrate.SCHEMA_VERSION), (
        "a copy was made before"
    )
    assert not list(tmp_path.glob("*.part"))


@every_dump
def test_a_migrated_database_has_the_schema_of_a_new_one(dump: Path, tmp_path: Path) -> None:
    old, new = restore_dump(dump, tmp_path / "old"), tmp_path / "new.db"
    for path in (old, new):
        SqliteDatabase(path).close()
    assert inspect_schema(old) == inspect_schema(new)
    assert set(inspect_schema(new)) == {*schema.metadata.tables, "alembic_version"}


BEFORE_LOGIN_KEYS = next(dump for dump in DUMPS if get_schema(dump) == "0004")


def test_login_keys_without_expiry_expire_in_90_days(tmp_path: Path) -> None:
    path = restore_dump(BEFORE_LOGIN_KEYS, tmp_path)
    keys = {"login": None, "laptop": None, "nightly": 4_000_000_000_000_000}
    with sqlite3.connect(path) as old:
        old.execute("INSERT INTO accounts VALUES (1, 'a', 'ada', 'ada', NULL, 0, 0)")
        for name, expires in keys.items():
            row = (name, f"kn_{name}", b"x", expires)
            old.execute("INSERT INTO api_keys VALUES (NULL, 1, ?, ?, ?, 0, ?, NULL)", row)
    old.close()
    database = SqliteDatabase(path)
    kept = {key.name: key.expires_at for key in KeyStore(database).list_of_account(1)}
    database.close()
    assert kept["login"] is not None and kept["nightly"] is not None
    assert timedelta(days=89) < kept["login"] - now() <= timedelta(days=90)
    assert (kept["laptop"], make_timestamp(kept["nightly"])) == (None, keys["nightly"])
    with sqlite3.connect(path) as new:
        assert dict(new.execute("SELECT name, is_login FROM api_keys")) == {"login": 1, "laptop": 0, "nightly": 0}
    new.close()


def test_jobs_keep_their_ids_when_their_table_is_recreated(tmp_path: Path) -> None:
    path = restore_dump(BEFORE_LOGIN_KEYS, tmp_path)
    values = (
        "'add', 0, 1, 'a.txt', '{}', NULL, 0, 'completed', NULL, NULL, '', 0, NULL, NULL, NULL, '[]', NULL, NULL, 0"
    )
    with sqlite3.connect(path) as old:
        for number in (3, 7):
            old.execute(f"INSERT INTO jobs VALUES ({number}, '{number:032x}', {values}, 1, 2, 3)")
        old.execute("DELETE FROM jobs WHERE id = 7")
        before = old.execute("SELECT * FROM jobs").fetchall()
    old.close()
    SqliteDatabase(path).close()
    with sqlite3.connect(path) as new:
        kept = [row[: len(before[0])] for row in new.execute("SELECT * FROM jobs")]
        assert kept == before
        another = values.replace("0, 1", "1, 1", 1)
        columns = ", ".join(row[1] for row in new.execute("PRAGMA table_info(jobs)").fetchall()[: len(before[0])])
        twin = new.execute(f"INSERT INTO jobs ({columns}) VALUES (NULL, '{3:032x}', {another}, 1, 2, 3)")
        assert twin.lastrowid == 8, "ids are never reused, and another owner may use the same uid"
        with pytest.raises(sqlite3.IntegrityError):
            new.execute(f"INSERT INTO jobs ({columns}) VALUES (NULL, '{3:032x}', {values}, 1, 2, 3)")
    new.close()


def inspect_schema(path: Path) -> dict[str, object]:
    """Return the tables of a database with their columns, keys and indexes."""
    engine = create_engine(f"sqlite:///{path}")
    found = inspect(engine)
    tables: dict[str, object] = {
        table: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(table)],
            found.get_pk_constraint(table)["constrained_columns"],
            sorted(str(index["column_names"]) for index in found.get_indexes(table)),
            sorted(str(unique["column_names"]) for unique in found.get_unique_constraints(table)),
        )
        for table in found.get_table_names()
    }
    engine.dispose()
    return tables


@pytest.mark.parametrize(("compatible_from", "is_refused"), [(migrate.SCHEMA_VERSION, False), ("9998", True)])
def test_a_newer_schema_is_used_only_if_it_is_compatible(
    tmp_path: Path, compatible_from: str, is_refused: bool
) -> None:
    path = tmp_path / "knowledge.db"
    SqliteDatabase(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("UPDATE alembic_version SET version_num = '9999'")
        newer.execute("UPDATE schema_compatibility SET version = '9999', compatible_from = ?", (compatible_from,))
    newer.close()
    with pytest.raises(StorageFailed, match="newer version") if is_refused else nullcontext():
        SqliteDatabase(path).close()


@pytest.mark.parametrize("dump", [next(dump for dump in DUMPS if get_schema(dump) == VERSIONS[-2])], ids=["previous"])
def test_a_migrated_database_states_which_programs_can_use_it(dump: Path, tmp_path: Path) -> None:
    path = restore_dump(dump, tmp_path)
    SqliteDatabase(path).close()
    with sqlite3.connect(path) as migrated:
        stated = migrated.execute("SELECT version, compatible_from FROM schema_compatibility").fetchall()
    migrated.close()
    assert stated == [(migrate.SCHEMA_VERSION, migrate.COMPATIBLE_FROM)]
