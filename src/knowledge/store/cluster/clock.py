"""The clock of the database, by which leases and heartbeats of several servers are compared."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

MICROSECONDS_PER_SECOND = 1_000_000


class database_now(FunctionElement[int]):
    """Microseconds since 1970 (UTC) when the statement runs, not when its transaction began."""

    type = BigInteger()
    name = "database_now"
    inherit_cache = True


@compiles(database_now, "sqlite")
def _compile_for_sqlite(*_: Any, **__: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)"


@compiles(database_now, "postgresql")
def _compile_for_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"


def after_seconds(seconds: float) -> Any:
    """Return the SQL expression of the time in so many seconds."""
    return database_now() + int(seconds * MICROSECONDS_PER_SECOND)


def before_seconds(seconds: float) -> Any:
    """Return the SQL expression of the time so many seconds ago."""
    return database_now() - int(seconds * MICROSECONDS_PER_SECOND)
