"""The id of the place of originals that the servers of a database share."""

from __future__ import annotations

from sqlalchemy import select

from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.prepared_statements import insert_if_absent

S = schema.settings.c
SETTING_NAME = "originals_id"


def read_originals_id(database: Database) -> str | None:
    with database.read() as connection:
        return connection.execute(select(S.value).where(S.name == SETTING_NAME)).scalar()


def store_originals_id(database: Database, marker: str) -> str:
    """Store the id unless another server has stored one, and return the stored one."""
    values = {"name": SETTING_NAME, "value": marker}
    database.write(
        lambda connection: connection.execute(
            insert_if_absent(schema.settings, connection.dialect.name).values(**values)
        ),
        is_idempotent=True,
    )
    return read_originals_id(database) or marker
