"""Servers are upgraded one by one: a newer version migrates the database while the version before still works."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from sqlalchemy import Connection, insert, select, text

from knowledge.errors import StorageFailed
from knowledge.store import migrate, schema
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.store.sqlite import SqliteDatabase
from tests.support.postgres import PostgresServer

AnyDatabase: TypeAlias = PostgresDatabase | SqliteDatabase
NEXT_VERSION = "9000"
LIMIT_SECONDS = 60.0
NEXT_MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{NEXT_VERSION}", "{migrate.SCHEMA_VERSION}"

def upgrade():
    op.add_column("settings", sa.Column("note", sa.Text, nullable=False, server_default="from the next version"))
    op.create_table("of_tomorrow", sa.Column("id", sa.Integer, primary_key=True))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the database is: a path or a URL."""
    if request.param == "sqlite":
        yield str(tmp_path / "knowledge.db")
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.database() as url:
        yield url


def open_at(place: str) -> AnyDatabase:
    return PostgresDatabase(place) if "://" in place else SqliteDatabase(Path(place))


@contextmanager
def next_version(tmp_path: Path, compatible_from: str) -> Iterator[None]:
    """Be the next version of this program, which has one migration more."""
    folder = tmp_path / "migrations"
    if not folder.exists():
        shutil.copytree(migrate.MIGRATIONS_FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "versions" / f"{NEXT_VERSION}_next.py").write_text(NEXT_MIGRATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "MIGRATIONS_FOLDER", folder)
        patch.setattr(migrate, "SCHEMA_VERSION", NEXT_VERSION)
        patch.setattr(migrate, "COMPATIBLE_FROM", compatible_from)
        yield


def add_name(connection: Connection, name: str) -> None:
    connection.execute(insert(schema.settings).values(name=name, value=""))


def read_settings(database: AnyDatabase) -> list[tuple[str, str]]:
    with database.read() as connection:
        rows = connection.execute(text("SELECT name, note FROM settings ORDER BY name"))
        return [(row.name, row.note) for row in rows]


def test_the_version_before_works_on_while_the_next_one_migrates(place: str, tmp_path: Path) -> None:
    before = open_at(place)
    before.write(lambda connection: add_name(connection, "a"))
    with next_version(tmp_path, migrate.SCHEMA_VERSION):
        after = open_at(place)
    before.write(lambda connection: add_name(connection, "b"))
    after.write(lambda connection: add_name(connection, "c"))
    names = [(name, "from the next version") for name in ("a", "b", "c")]
    assert read_settings(after) == read_settings(before) == names
    before.close()
    again = open_at(place)  # a server of the version before is started once more
    again.write(lambda connection: add_name(connection, "d"))
    assert len(read_settings(after)) == 4
    again.close()
    after.close()


def test_the_version_before_is_refused_by_a_schema_that_it_cannot_use(place: str, tmp_path: Path) -> None:
    open_at(place).close()
    with next_version(tmp_path, NEXT_VERSION):
        open_at(place).close()
    with pytest.raises(StorageFailed, match=f"newer version.*schema {NEXT_VERSION}") as refused:
        open_at(place)
    assert "Upgrade" in refused.value.hint


def test_servers_of_the_next_version_that_start_together_migrate_once(postgres: PostgresServer, tmp_path: Path) -> None:
    with postgres.database() as url, next_version(tmp_path, migrate.SCHEMA_VERSION), ThreadPoolExecutor(4) as pool:
        opened = [running.result(LIMIT_SECONDS) for running in [pool.submit(PostgresDatabase, url) for _ in range(4)]]
        with opened[0].read() as connection:
            assert migrate.read_schema_version(connection) == NEXT_VERSION
            stated = connection.execute(select(schema.schema_compatibility)).all()
        assert len(stated) == 1 and stated[0].version == NEXT_VERSION
        for database in opened:
            database.close()
