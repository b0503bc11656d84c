"""Statements that run for every document. They are compiled once and go straight to the driver: to be found in the
library's cache and carried through it takes twenty times as long as SQLite needs to run them."""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from sqlalchemy import Connection, Delete, Insert, Select, Update
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate
from sqlalchemy.types import TypeEngine

Statement: TypeAlias = Select[Any] | Insert | Update | Delete | ReturningInsert[Any] | ReturningUpdate[Any]
Values: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[Any], Any]
"""A value on its way into a column or out of it: JSON, a UUID."""

DIALECT = sqlite.dialect(paramstyle="named")


@dataclass(frozen=True, slots=True)
class Compiled:
    sql: str
    fixed: dict[str, Any]
    """What the statement itself says."""
    given: int
    """How many values are to come with each run."""
    inwards: tuple[tuple[str, Change], ...]
    outwards: tuple[tuple[int, Change], ...]
    row: Callable[[Iterable[Any]], Any]

    def bound(self, values: Values) -> dict[str, Any]:
        if len(values) != self.given:
            raise TypeError(f"{self.given} values are wanted, not {sorted(values)}")
        bound = {**self.fixed, **values}
        for name, change in self.inwards:
            bound[name] = change(bound[name])
        return bound

    def shown(self, found: tuple[Any, ...]) -> Any:
        """A row by the names of its columns."""
        values = list(found)
        for place, change in self.outwards:
            values[place] = change(values[place])
        return self.row(values)


class Prepared:
    """A statement as `Connection.execute` takes it; each run gives the same names, since they are part of it."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._compiled: Compiled | None = None

    def run(self, connection: Connection, values: Values) -> sqlite3.Cursor:
        compiled = self._compiled or self._compile(values)
        return _cursor(connection).execute(compiled.sql, compiled.bound(values))

    def many(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        if rows:
            compiled = self._compiled or self._compile(rows[0])
            _cursor(connection).executemany(compiled.sql, map(compiled.bound, rows))

    def insert(self, connection: Connection, values: Values) -> int:
        """Answers the number that the database gave to the row."""
        number = self.run(connection, values).lastrowid
        assert number is not None
        return number

    def first(self, connection: Connection, values: Values) -> Any | None:
        found = _first(self.run(connection, values))
        return None if found is None else self._of().shown(found)

    def all(self, connection: Connection, values: Values) -> list[Any]:
        cursor = self.run(connection, values)
        return list(map(self._of().shown, cursor))

    def scalar(self, connection: Connection, values: Values) -> Any | None:
        """The first column of the first row."""
        found = _first(self.run(connection, values))
        return None if found is None else found[0]

    def _of(self) -> Compiled:
        assert self._compiled is not None
        return self._compiled

    def _compile(self, values: Values) -> Compiled:
        compiled = self._statement.compile(dialect=DIALECT, column_keys=sorted(values))
        types = {name: bind.type for bind, name in compiled.bind_names.items()}
        columns = list(self._statement.exported_columns)
        fixed = {name: value for name, value in compiled.params.items() if name not in values}
        self._compiled = Compiled(
            sql=str(compiled),
            fixed=fixed,
            given=len(types) - len(fixed),
            inwards=tuple((name, change) for name, kind in types.items() if (change := _inwards(kind)) is not None),
            outwards=tuple(
                (place, change)
                for place, column in enumerate(columns)
                if (change := _outwards(column.type)) is not None
            ),
            row=_row([column.key or "" for column in columns]),
        )
        return self._compiled


def _first(cursor: sqlite3.Cursor) -> tuple[Any, ...] | None:
    """And no more: a statement that is still open would be in the way of the commit."""
    found: tuple[Any, ...] | None = cursor.fetchone()
    cursor.close()
    return found


def _row(names: list[str]) -> Callable[[Iterable[Any]], Any]:
    row: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    return cast("Callable[[Iterable[Any]], Any]", row._make)


def _inwards(kind: TypeEngine[Any]) -> Change | None:
    return kind.dialect_impl(DIALECT).bind_processor(DIALECT)


def _outwards(kind: TypeEngine[Any]) -> Change | None:
    return kind.dialect_impl(DIALECT).result_processor(DIALECT, None)


def _cursor(connection: Connection) -> sqlite3.Cursor:
    driver: sqlite3.Cursor = connection.connection.cursor()  # type: ignore[assignment]
    return driver
