"""Create or migrate the database schema, with a copy before each migration."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from knowledge import failpoints
from knowledge.errors import StorageFailed
from knowledge.filesystem import file_modes
from knowledge.store.schema import metadata

SCHEMA_VERSION = "0007"
"""Newest migration; a test compares it with the files in `migrations/versions`."""
COPY_KEEP_SECONDS = 7 * 24 * 3600.0
"""Copies allow a downgrade; they are deleted because they contain documents that are removed later."""
MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"


def upgrade_database(engine: Engine, path: Path) -> None:
    """Migrate the database to SCHEMA_VERSION; a newer schema is rejected and left unchanged."""
    with engine.connect() as connection:
        found = read_schema_version(connection)
    if found == SCHEMA_VERSION:
        return
    if found is None:
        _create_schema(engine)
        return
    if found > SCHEMA_VERSION:
        raise StorageFailed(
            f"The database was created by a newer version of this program (schema {found}, "
            f"this version supports up to {SCHEMA_VERSION})",
            hint="Upgrade knowledge-server, or use another data folder.",
            schema=found,
        )
    _copy_database(path, found)
    failpoints.trigger("migrate.copied")
    _run_migrations(engine)
    failpoints.trigger("migrate.done")


def delete_old_copies(path: Path) -> None:
    """Delete expired and partial copies."""
    for copy in path.parent.glob(f"{path.stem}-before-*"):
        if copy.suffix == ".part" or time.time() - copy.stat().st_mtime > COPY_KEEP_SECONDS:
            copy.unlink(missing_ok=True)


def read_schema_version(connection: Connection) -> str | None:
    """Return the schema version, or None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _create_schema(engine: Engine) -> None:
    """Create all tables of a new database without importing Alembic."""
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": SCHEMA_VERSION})


def _copy_database(path: Path, found: str) -> None:
    """Copy the database atomically: a partial copy keeps the suffix .part."""
    target = path.with_name(f"{path.stem}-before-{SCHEMA_VERSION}-from-{found}{path.suffix}")
    draft = target.with_name(f"{target.name}.part")
    draft.unlink(missing_ok=True)
    file_modes.create_file(draft)
    source, copy = sqlite3.connect(path), sqlite3.connect(draft)
    try:
        source.backup(copy)
    finally:
        source.close()
        copy.close()
    failpoints.trigger("migrate.copying")
    draft.replace(target)


def _run_migrations(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        failpoints.trigger("migrate.uncommitted")
