"""Carries over the highest id that each table has ever assigned, so that no id is used twice after a move."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Table, func, select, text

from knowledge.store import schema
from knowledge.store.changes import TRIMMED_NAME
from knowledge.store.prepared_statements import insert_if_absent
from knowledge.store.transfer.tables import list_copied_tables

_SELECT_SEQUENCE = text("SELECT seq FROM sqlite_sequence WHERE name = :name")
_DELETE_SEQUENCE = text("DELETE FROM sqlite_sequence WHERE name = :name")
_INSERT_SEQUENCE = text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)")
_SET_SEQUENCE = text("SELECT setval(pg_get_serial_sequence(:name, :column), :last)")


def read_last_ids(connection: Connection) -> dict[str, int]:
    """Return the highest id ever assigned in each table that assigns ids; deleted rows count."""
    return {
        table.name: _read_last_id(connection, table, column)
        for table in list_copied_tables()
        if (column := table.autoincrement_column) is not None
    }


def _read_last_id(connection: Connection, table: Table, column: Column[int]) -> int:
    highest = int(connection.execute(select(func.max(column))).scalar() or 0)
    if connection.dialect.name == "sqlite":
        assigned = connection.execute(_SELECT_SEQUENCE, {"name": table.name}).scalar() if _keeps_ids(table) else 0
    else:
        name = connection.execute(select(func.pg_get_serial_sequence(table.name, column.name))).scalar_one()
        last, is_called = connection.exec_driver_sql(f"SELECT last_value, is_called FROM {name}").one()
        assigned = last if is_called else 0
    return max(highest, int(assigned or 0))


def write_last_ids(connection: Connection, last_ids: dict[str, int]) -> None:
    """Make every table assign ids above these."""
    for table in list_copied_tables():
        column, last = table.autoincrement_column, last_ids.get(table.name, 0)
        if column is None or not last:
            continue
        values = {"name": table.name, "last": last}
        if connection.dialect.name != "sqlite":
            connection.execute(_SET_SEQUENCE, {**values, "column": column.name})
        elif _keeps_ids(table):
            connection.execute(_DELETE_SEQUENCE, {"name": table.name})
            connection.execute(_INSERT_SEQUENCE, values)


def mark_trimmed_log(connection: Connection) -> None:
    """Store up to where a change log without rows was trimmed, which earlier versions left to the last id of SQLite."""
    last = _read_last_id(connection, schema.changes, schema.changes.c.seq)
    if last and connection.execute(select(schema.changes.c.seq).limit(1)).first() is None:
        trimmed = {"name": TRIMMED_NAME, "value": str(last)}
        connection.execute(insert_if_absent(schema.settings, connection.dialect.name).values(**trimmed))


def _keeps_ids(table: Table) -> bool:
    """Return whether SQLite remembers the last id of this table."""
    return bool(table.dialect_options["sqlite"]["autoincrement"])
