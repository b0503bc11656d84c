"""Create or migrate the database schema, with a copy before each migration."""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, insert, inspect, select, text

from knowledge import failpoints
from knowledge.errors import StorageFailed
from knowledge.filesystem import file_modes
from knowledge.store import schema
from knowledge.store.insight import tables as insight_tables
from knowledge.store.postgres import locks

log = logging.getLogger(__name__)

B = schema.schema_compatibility.c

SCHEMA_VERSION = "0021"
"""Newest migration; a test compares it with the files in `migrations/versions`."""
COMPATIBLE_FROM = "0013"
"""Oldest schema version of a program that can work with this schema, while servers are upgraded one by one.

A migration that removes or changes what an older version uses raises it to its own number: expand first, contract a
release later (docs/decisions/0032-postgresql.md)."""
COPY_KEEP_SECONDS = 7 * 24 * 3600.0
"""Copies allow a downgrade; they are deleted because they contain documents that are removed later."""
MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"


def upgrade_database(engine: Engine, path: Path) -> None:
    """Migrate a database file to SCHEMA_VERSION; a newer incompatible schema is rejected and left unchanged."""
    with engine.connect() as connection:
        found = read_schema_version(connection)
        if found is not None and found >= SCHEMA_VERSION:
            check_compatible(connection, found)
            return
    if found is not None:
        _copy_database(path, found)
        failpoints.trigger("migrate.copied")
    with engine.begin() as connection:
        if found is None:
            create_schema(connection)
        else:
            _run_migrations(connection)
    failpoints.trigger("migrate.done")


def upgrade_shared_database(connection: Connection) -> None:
    """Create or migrate the schema in one transaction; servers that start together wait for the first."""
    for setting in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {setting} = 0")
    locks.lock_migrations(connection)
    found = read_schema_version(connection)
    if found is None:
        create_schema(connection)
    elif found < SCHEMA_VERSION:
        _run_migrations(connection)
    else:
        check_compatible(connection, found)


def check_compatible(connection: Connection, found: str) -> None:
    """Reject a newer schema, unless the program that made it says that this version can work with it."""
    if found <= SCHEMA_VERSION:
        return
    stated = select(B.compatible_from).where(B.version == found)
    compatible_from = connection.execute(stated).scalar() if _has_compatibility(connection) else None
    if compatible_from is not None and compatible_from <= SCHEMA_VERSION:
        log.info("the database has the newer schema %s, which this version can work with", found)
        return
    raise StorageFailed(
        f"The database was created by a newer version of this program (schema {found}, "
        f"this version supports up to {SCHEMA_VERSION})",
        hint="Upgrade knowledge-server, or use another data folder.",
        schema=found,
    )


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


def create_schema(connection: Connection) -> None:
    """Create all tables of a new database without importing Alembic."""
    insight_tables.agents.metadata.create_all(connection)  # all tables have the same metadata
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": SCHEMA_VERSION})
    _write_compatible_from(connection)


def _has_compatibility(connection: Connection) -> bool:
    return inspect(connection).has_table(schema.schema_compatibility.name)


def _write_compatible_from(connection: Connection) -> None:
    connection.execute(delete(schema.schema_compatibility))
    connection.execute(
        insert(schema.schema_compatibility).values(version=SCHEMA_VERSION, compatible_from=COMPATIBLE_FROM)
    )


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


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    _write_compatible_from(connection)
    failpoints.trigger("migrate.uncommitted")
