"""Checks that every server of a database uses the same folder of originals."""

from __future__ import annotations

import uuid
from pathlib import Path

from sqlalchemy import select

from knowledge.errors import StorageFailed
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.prepared_statements import insert_if_absent

S = schema.settings.c
SETTING_NAME = "originals_id"
MARKER_PREFIX = "originals-"
"""Beginning of the name of an empty folder in the folder of originals; the rest is the id that the database knows."""


def check_originals_folder(database: Database, root: Path) -> None:
    """Mark the folder of a new database; raise StorageFailed if this is not the folder that the database knows."""
    known = _read_id(database)
    if known is None:
        made = {"name": SETTING_NAME, "value": _find_or_make_marker(root)}
        database.write(
            lambda connection: connection.execute(
                insert_if_absent(schema.settings, connection.dialect.name).values(**made)
            ),
            is_idempotent=True,
        )
        known = _read_id(database)
    if not (root / f"{MARKER_PREFIX}{known}").is_dir():
        raise StorageFailed(
            f"The folder of originals {root} is not the one that the other servers of this database use",
            hint="Mount the shared folder on this machine, and set KNOWLEDGE_ORIGINALS to its path. If the folder was "
            f"copied, copy its empty folder {MARKER_PREFIX}{known} too.",
            folder=str(root),
        )


def _read_id(database: Database) -> str | None:
    with database.read() as connection:
        return connection.execute(select(S.value).where(S.name == SETTING_NAME)).scalar()


def _find_or_make_marker(root: Path) -> str:
    """Return the id of the folder; two servers that start at the same time may make two, and the database keeps one."""
    try:
        known = [path.name.removeprefix(MARKER_PREFIX) for path in root.glob(f"{MARKER_PREFIX}*") if path.is_dir()]
        if known:
            return min(known)
        made = uuid.uuid4().hex
        (root / f"{MARKER_PREFIX}{made}").mkdir(mode=0o700)
    except OSError as error:
        raise StorageFailed(f"The folder of originals {root} cannot be written: {error.strerror or error}") from error
    return made
