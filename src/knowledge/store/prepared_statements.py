"""Statements that run for every document. They are compiled once and go straight to the driver: to be found in the
library's cache and carried through it takes twenty times as long as SQLite needs to run them."""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from sqlalchemy import Connection, Delete, Insert, Select, Table, Update
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate
from sqlalchemy.types import TypeEngine

Statement: TypeAlias = Select[Any] | Insert | Update | Delete | ReturningInsert[Any] | ReturningUpdate[Any]
Values: TypeAlias = Mapping[str, Any]
ValueProcessor: TypeAlias = Callable[[Any], Any]
"""A value on its way into a column or out of it: JSON, a UUID."""

DIALECT = sqlite.dialect(paramstyle="named")


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    sql: str
    fixed: dict[str, Any]
    """What the statement itself says."""
    parameter_count: int
    """How many values are to come with each run."""
    bind_processors: tuple[tuple[str, ValueProcessor], ...]
    result_processors: tuple[tuple[int, ValueProcessor], ...]
    make_row: Callable[[Iterable[Any]], Any]

    def bind(self, values: Values) -> dict[str, Any]:
        if len(values) != self.parameter_count:
            raise TypeError(f"{self.parameter_count} values are wanted, not {sorted(values)}")
        bound = {**self.fixed, **values}
        for name, change in self.bind_processors:
            bound[name] = change(bound[name])
        return bound

    def convert_row(self, found: tuple[Any, ...]) -> Any:
        """A row by the names of its columns."""
        values = list(found)
        for place, change in self.result_processors:
            values[place] = change(values[place])
        return self.make_row(values)


class PreparedStatement:
    """A statement as `Connection.execute` takes it; each run gives the same names, since they are part of it."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._compiled: CompiledStatement | None = None

    def run(self, connection: Connection, values: Values) -> sqlite3.Cursor:
        compiled = self._compiled or self._compile(values)
        return _cursor(connection).execute(compiled.sql, compiled.bind(values))

    def run_many(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        if rows:
            compiled = self._compiled or self._compile(rows[0])
            _cursor(connection).executemany(compiled.sql, map(compiled.bind, rows))

    def insert(self, connection: Connection, values: Values) -> int:
        """Answers the number that the database gave to the row."""
        number = self.run(connection, values).lastrowid
        assert number is not None
        return number

    def fetch_first(self, connection: Connection, values: Values) -> Any | None:
        found = _fetch_one(self.run(connection, values))
        return None if found is None else self._require_compiled().convert_row(found)

    def fetch_all(self, connection: Connection, values: Values) -> list[Any]:
        cursor = self.run(connection, values)
        return list(map(self._require_compiled().convert_row, cursor))

    def fetch_scalar(self, connection: Connection, values: Values) -> Any | None:
        """The first column of the first row."""
        found = _fetch_one(self.run(connection, values))
        return None if found is None else found[0]

    def _require_compiled(self) -> CompiledStatement:
        assert self._compiled is not None
        return self._compiled

    def _compile(self, values: Values) -> CompiledStatement:
        compiled = self._statement.compile(dialect=DIALECT, column_keys=sorted(values))
        types = {name: bind.type for bind, name in compiled.bind_names.items()}
        columns = list(self._statement.exported_columns)
        fixed = {name: value for name, value in compiled.params.items() if name not in values}
        self._compiled = CompiledStatement(
            sql=str(compiled),
            fixed=fixed,
            parameter_count=len(types) - len(fixed),
            bind_processors=tuple(
                (name, change) for name, kind in types.items() if (change := _find_bind_processor(kind)) is not None
            ),
            result_processors=tuple(
                (place, change)
                for place, column in enumerate(columns)
                if (change := _find_result_processor(column.type)) is not None
            ),
            make_row=_make_row_type([column.key or "" for column in columns]),
        )
        return self._compiled


def _fetch_one(cursor: sqlite3.Cursor) -> tuple[Any, ...] | None:
    """And no more: a statement that is still open would be in the way of the commit."""
    found: tuple[Any, ...] | None = cursor.fetchone()
    cursor.close()
    return found


def _make_row_type(names: list[str]) -> Callable[[Iterable[Any]], Any]:
    row: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    return cast("Callable[[Iterable[Any]], Any]", row._make)


def _find_bind_processor(kind: TypeEngine[Any]) -> ValueProcessor | None:
    return kind.dialect_impl(DIALECT).bind_processor(DIALECT)


def _find_result_processor(kind: TypeEngine[Any]) -> ValueProcessor | None:
    return kind.dialect_impl(DIALECT).result_processor(DIALECT, None)


def _cursor(connection: Connection) -> sqlite3.Cursor:
    driver: sqlite3.Cursor = connection.connection.cursor()  # type: ignore[assignment]
    return driver


def upsert(table: Table, dialect: str) -> Insert:
    """Inserts rows, or replaces the values of those whose primary key is there."""
    statement: Any = sqlite.insert(table)
    if dialect == "postgresql":  # imported where it is used: it takes longer than the rest of the library
        from sqlalchemy.dialects import postgresql

        statement = postgresql.insert(table)
    values = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return cast(Insert, statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=values))
