"""Estimates how long a copy takes: copies the first rows of each table to a scratch place, and measures it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, MetaData, Table, create_engine, inspect
from sqlalchemy.pool import NullPool

from knowledge.errors import NotNow
from knowledge.store.column_types import Text
from knowledge.store.sqlite import create_database_file, open_sqlite_engine
from knowledge.store.transfer.marks import MoveMark, read_mark
from knowledge.store.transfer.rows import TableDigest, read_batches, write_rows
from knowledge.store.transfer.tables import MOVED_FROM_NAME, count_rows, find_filled_tables, list_copied_tables

SAMPLE_ROWS = 500
VERSION_TABLE = "alembic_version"


@dataclass(frozen=True, slots=True)
class TableEstimate:
    name: str
    rows: int
    seconds: float


@contextmanager
def open_scratch_postgres(url: str) -> Iterator[Connection]:
    """Open a connection whose unqualified tables are temporary; nothing in the database is changed."""
    with connect_plainly(url) as connection:
        _make_scratch_metadata("pg_temp").create_all(connection, checkfirst=False)
        yield connection
        connection.rollback()


@contextmanager
def connect_plainly(url: str) -> Iterator[Connection]:
    """Connect to a PostgreSQL database without creating or migrating its tables."""
    from knowledge.store.postgres import failures
    from knowledge.store.postgres.postgres import CONNECT_SECONDS, check_server_version, parse_database_url

    parsed = parse_database_url(url)
    engine = create_engine(parsed, poolclass=NullPool, connect_args={"connect_timeout": CONNECT_SECONDS})
    try:
        with engine.connect() as connection:
            check_server_version(connection)
            yield connection
    except failures.DRIVER_ERRORS as error:
        raise failures.wrap_postgres_error(error, parsed) from error
    finally:
        engine.dispose()


@contextmanager
def open_scratch_file(near: Path) -> Iterator[Connection]:
    """Open a temporary database file on the disk of a folder that may not exist yet."""
    parent = next(place for place in (near, *near.parents) if place.exists())
    with TemporaryDirectory(dir=parent, prefix=".knowledge-estimate-") as folder:
        path = Path(folder) / "scratch.db"
        create_database_file(path)
        engine = open_sqlite_engine(path, transactions="BEGIN")
        try:
            with engine.begin() as connection:
                _make_scratch_metadata(None).create_all(connection)
                yield connection
        finally:
            engine.dispose()


def find_rows_in_postgres(url: str) -> tuple[list[str], MoveMark | None]:
    """Return the tables that have rows and the mark of a move; raises NotNow if another program uses the database."""
    with connect_plainly(url) as connection:
        names = inspect(connection).get_table_names()
        if VERSION_TABLE in names:
            return find_filled_tables(connection), read_mark(connection, MOVED_FROM_NAME)
    if names:
        raise NotNow(
            f"The database has tables of another program: {', '.join(sorted(names)[:5])}",
            hint="Create a database of its own for the knowledge server.",
        )
    return [], None


def _make_scratch_metadata(schema_name: str | None) -> MetaData:
    """Return the copied tables with their indexes and without references, because a sample has not all rows."""
    scratch = MetaData()
    for table in list_copied_tables():
        made = table.to_metadata(scratch, schema=schema_name) if schema_name else table.to_metadata(scratch)
        for reference in list(made.foreign_key_constraints):
            made.constraints.remove(reference)
        for index in [index for index in made.indexes if any(type(column.type) is Text for column in index.columns)]:
            made.indexes.remove(index)  # long texts have an index in one kind of database alone
    return scratch


def estimate_tables(source: Connection, scratch: Connection) -> list[TableEstimate]:
    """Return the rows of each table and the seconds that copying and comparing them takes."""
    return [_estimate_table(source, scratch, table) for table in list_copied_tables()]


def _estimate_table(source: Connection, scratch: Connection, table: Table) -> TableEstimate:
    started = time.perf_counter()
    sample = next(read_batches(source, table, limit=SAMPLE_ROWS), [])
    digest = TableDigest()
    for row in sample:
        digest.add(row)
    read = time.perf_counter()
    if sample:
        write_rows(scratch, table, sample)
        next(read_batches(scratch, table, limit=SAMPLE_ROWS))
    written = time.perf_counter()
    rows = count_rows(source, table)
    # The source is read once to copy and once to compare.
    seconds = 2 * (read - started) + (written - read)
    return TableEstimate(table.name, rows, seconds * max(rows / len(sample), 1.0) if sample else 0.0)
