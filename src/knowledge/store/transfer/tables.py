"""Which tables are copied from one database to another, and in which order.

The list is derived from the schema: a table that is added later is copied without a change here.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, and_, func, select, true

from knowledge.store import schema

NOT_COPIED = {
    "schema_compatibility": "belongs to the schema, which the target creates itself",
    "servers": "heartbeats of servers, which register again when they start",
    "leases": "held by servers that have ended",
    "unreferenced_originals": "originals of one bucket that wait for their deletion; its servers find them again",
    "rate_limit_entries": "calls of the last minutes",
}
"""Tables that describe the servers of one database and not the data, each with the reason."""
MOVED_TO_NAME, MOVED_FROM_NAME = "moved_to", "moved_from"
"""Names of the settings that mark the source and the target of a move."""
BACKUP_RECORD_NAME = "backup_record"
"""Name of the setting that says when a backup was made by schedule."""
LOCAL_SETTINGS = (MOVED_TO_NAME, MOVED_FROM_NAME, BACKUP_RECORD_NAME, "originals_id")
"""Settings that describe one database and its originals, and are not copied."""


def list_copied_tables() -> list[Table]:
    """Return the tables in an order in which every row comes after the rows that it refers to."""
    return [table for table in schema.metadata.sorted_tables if table.name not in NOT_COPIED]


def select_copied(table: Table) -> Any:
    """Return the condition that the copied rows of a table meet."""
    return schema.settings.c.name.not_in(LOCAL_SETTINGS) if table is schema.settings else true()


def count_rows(connection: Connection, table: Table) -> int:
    """Count the rows of a table that are copied."""
    return int(
        connection.execute(select(func.count()).select_from(table).where(and_(select_copied(table)))).scalar_one()
    )


def find_filled_tables(connection: Connection) -> list[str]:
    """Return the names of the tables that have rows."""
    return [
        table.name
        for table in list_copied_tables()
        if connection.execute(select(1).select_from(table).where(select_copied(table)).limit(1)).first() is not None
    ]
