"""Brings a database forward to this program's schema, after making a copy of it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from knowledge import failpoints
from knowledge.errors import StorageFailed
from knowledge.store import file_modes
from knowledge.store.schema import metadata

SCHEMA = "0005"
"""The newest migration; a test compares it with the files beside it."""
COPY_SECONDS = 7 * 24 * 3600.0
"""For so long the copy is kept for those who want to go back; it holds what is deleted meanwhile."""
MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(engine: Engine, path: Path) -> None:
    """Leave the database at SCHEMA; one made by a newer program is refused and left untouched."""
    with engine.connect() as connection:
        found = version(connection)
    if found == SCHEMA:
        return
    if found is None:
        _create(engine)
        return
    if found > SCHEMA:
        raise StorageFailed(
            f"The database was made by a newer version of this program (schema {found}, this one knows {SCHEMA})",
            hint="Install the newer version of knowledge-server again, or choose another data folder.",
            schema=found,
        )
    _copy(path, found)
    failpoints.reached("migrate.copied")
    _migrate(engine)
    failpoints.reached("migrate.done")


def sweep_copies(path: Path) -> None:
    """Remove copies that are old enough, and half ones."""
    for copy in path.parent.glob(f"{path.stem}-before-*"):
        if copy.suffix == ".part" or time.time() - copy.stat().st_mtime > COPY_SECONDS:
            copy.unlink(missing_ok=True)


def version(connection: Connection) -> str | None:
    """The schema a database has; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _create(engine: Engine) -> None:
    """A new database is made as a whole, without importing the migration machinery."""
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": SCHEMA})


def _copy(path: Path, found: str) -> None:
    """Whole or not there: a half copy would be worth nothing, and look like one that is."""
    target = path.with_name(f"{path.stem}-before-{SCHEMA}-from-{found}{path.suffix}")
    draft = target.with_name(f"{target.name}.part")
    draft.unlink(missing_ok=True)
    file_modes.create_file(draft)
    source, copy = sqlite3.connect(path), sqlite3.connect(draft)
    try:
        source.backup(copy)
    finally:
        source.close()
        copy.close()
    failpoints.reached("migrate.copying")
    draft.replace(target)


def _migrate(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        failpoints.reached("migrate.uncommitted")
