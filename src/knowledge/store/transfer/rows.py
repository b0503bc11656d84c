"""Copies the rows of a table between two databases, in batches and in the order of the primary key.

A batch is one transaction, so the last key in the target says where an interrupted copy goes on. JSON is copied as its
text, because a value that is read and written again loses the difference between NULL and the JSON value null.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import JSON, Column, Connection, MetaData, Table, cast, insert, select, tuple_, types

from knowledge.store.column_types import NUL, dump_json, remove_nul
from knowledge.store.database import Database
from knowledge.store.transfer.tables import select_copied

BATCH_ROWS = 1000
_ESCAPED_NUL = "\\u0000"
Row = tuple[Any, ...]
Advance = Callable[[int], None]
"""Receives the number of rows that were copied or compared."""


def copy_table(source: Connection, target: Database, table: Table, advance: Advance) -> int:
    """Copy the rows that the target lacks and return their number; it may be interrupted between two batches."""
    with target.read() as connection:
        last = find_last_key(connection, table)
    copied = 0
    for rows in read_batches(source, table, last):
        target.write(lambda connection, rows=rows: write_rows(connection, table, rows))  # type: ignore[misc]
        copied += len(rows)
        advance(len(rows))
    return copied


def find_last_key(connection: Connection, table: Table) -> Row | None:
    """Return the highest primary key of a table."""
    keys = list(table.primary_key.columns)
    highest = select(*keys).where(select_copied(table)).order_by(*(key.desc() for key in keys)).limit(1)
    found = connection.execute(highest).first()
    return None if found is None else tuple(found)


def read_batches(
    connection: Connection, table: Table, after: Row | None = None, limit: int = BATCH_ROWS
) -> Iterator[list[Row]]:
    """Yield the rows after a primary key, as values that both databases store in the same way."""
    key_places = [number for number, column in enumerate(table.columns) if column.primary_key]
    while rows := _read_batch(connection, table, after, limit):
        yield rows
        after = tuple(rows[-1][place] for place in key_places)


def _read_batch(connection: Connection, table: Table, after: Row | None, limit: int) -> list[Row]:
    keys = [column for column in table.columns if column.primary_key]
    columns = [cast(column, types.Text).label(column.name) if _is_json(column) else column for column in table.columns]
    rows = select(*columns).where(select_copied(table)).order_by(*keys).limit(limit)
    if after is not None:
        rows = rows.where(
            keys[0] > after[0] if len(keys) == 1 else tuple_(*keys) > tuple_(*after, types=[key.type for key in keys])
        )
    places = [number for number, column in enumerate(table.columns) if _is_json(column)]
    return [_clean_row(tuple(row), places) for row in connection.execute(rows)]


def _is_json(column: Column[Any]) -> bool:
    return isinstance(column.type, JSON)


def _clean_row(row: Row, json_places: Sequence[int]) -> Row:
    """Remove NUL characters, which rows of earlier versions may have and PostgreSQL cannot store."""
    if not any(isinstance(value, str) and (NUL in value or _ESCAPED_NUL in value) for value in row):
        return row
    values = [remove_nul(value) if isinstance(value, str) else value for value in row]
    for place in json_places:
        if values[place] is not None:
            values[place] = dump_json(json.loads(values[place]))
    return tuple(values)


def write_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that `read_batches` has read."""
    if connection.dialect.name == "postgresql":
        _copy_into_postgres(connection, table, rows)
        return
    raw = _make_raw_table(table)
    names = [column.name for column in table.columns]
    connection.execute(insert(raw), [dict(zip(names, row, strict=True)) for row in rows])


def _copy_into_postgres(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    from psycopg import sql

    if not connection.in_transaction():
        connection.begin()  # SQLAlchemy does not see what its driver executes, and would not commit it
    driver = connection.connection.driver_connection
    assert driver is not None
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), names)
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _make_raw_table(table: Table) -> Table:
    """Return the table with JSON columns as text."""
    columns = [Column(column.name, types.Text() if _is_json(column) else column.type) for column in table.columns]
    return Table(table.name, MetaData(), *columns)


class TableDigest:
    """SHA-256 of all rows of a table, independent of the database that stores them."""

    def __init__(self) -> None:
        self._hash, self.rows = hashlib.sha256(), 0

    def add(self, row: Row) -> None:
        self.rows += 1
        for value in row:
            data = _encode_value(value)
            self._hash.update(b"%d:" % len(data))
            self._hash.update(data)

    def result(self) -> tuple[int, str]:
        """Return the number of rows and their SHA-256."""
        return self.rows, self._hash.hexdigest()


def _encode_value(value: Any) -> bytes:
    match value:
        case bytes() | memoryview():
            return b"x" + bytes(value)
        case str():
            return b"s" + value.encode("utf-8", "surrogatepass")
        case _:
            return repr(value).encode()


def digest_table(connection: Connection, table: Table, advance: Advance) -> tuple[int, str]:
    """Read a table and return the number of its rows and their SHA-256."""
    digest = TableDigest()
    for rows in read_batches(connection, table):
        for row in rows:
            digest.add(row)
        advance(len(rows))
    return digest.result()
