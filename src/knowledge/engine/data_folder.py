"""Prepares the data folder and opens its database, or PostgreSQL if its URL is given."""

from __future__ import annotations

import logging
from pathlib import Path

from knowledge.engine.backup import BACKUP_COPY_PREFIX
from knowledge.errors import MissingDependency, StorageFailed
from knowledge.filesystem import file_modes
from knowledge.store.database import Database
from knowledge.store.sqlite import DATABASE_NAME, SqliteDatabase

log = logging.getLogger(__name__)


def open_database(data: Path, url: str | None) -> Database:
    return SqliteDatabase(data / DATABASE_NAME) if url is None else open_postgres(url)


def open_postgres(url: str) -> Database:
    try:
        from knowledge.store.postgres.postgres import PostgresDatabase  # lazy: needs the extra
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "KNOWLEDGE_DATABASE_URL needs the driver of PostgreSQL, which is not installed",
            hint="pip install 'knowledge-server[cluster]'",
        ) from error
    return PostgresDatabase(url)


def prepare_data_folder(data: Path) -> None:
    """Create the data folder, make it private, and delete database copies of killed backups."""
    try:
        file_modes.make_folder(data)
        tightened = file_modes.make_private(data)
    except OSError as error:
        raise StorageFailed(f"The data folder {data} cannot be used: {error.strerror or error}") from error
    if tightened:
        log.info("made %d paths of the data folder private that other users could read", tightened)
    for copy in data.glob(f"{BACKUP_COPY_PREFIX}*.db*"):
        copy.unlink(missing_ok=True)
