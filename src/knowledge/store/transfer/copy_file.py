"""Writes the rows of a database into a new SQLite file, which is what a backup contains."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from knowledge.filesystem import file_modes
from knowledge.store import migrate
from knowledge.store.sqlite import open_sqlite_engine, wrap_driver_error
from knowledge.store.transfer.rows import read_batches, write_rows
from knowledge.store.transfer.sequences import read_last_ids, write_last_ids
from knowledge.store.transfer.tables import list_copied_tables

PRAGMAS = ("PRAGMA journal_mode=DELETE", "PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF")
"""One file without a WAL, and no journal: a copy that is not finished is deleted."""


def copy_into_file(source: Connection, target: Path) -> None:
    """Copy all rows that the connection sees into a new database file without a WAL."""
    file_modes.create_file(target)
    engine = open_sqlite_engine(target, transactions=None)
    try:
        with engine.connect() as connection:
            for pragma in PRAGMAS:
                connection.exec_driver_sql(pragma)
            connection.exec_driver_sql("BEGIN")
            migrate.create_schema(connection)
            for table in list_copied_tables():
                for rows in read_batches(source, table):
                    write_rows(connection, table, rows)
            write_last_ids(connection, read_last_ids(source))
            connection.exec_driver_sql("COMMIT")
    except DBAPIError as error:
        raise wrap_driver_error(error) from error
    finally:
        engine.dispose()
