"""The database as the stores use it: closures that write run in transactions, readers never wait for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, CursorResult, Table

T = TypeVar("T")
Work = Callable[[Connection], T]

DAMAGED_HINT = (
    "Run 'knowledge verify' to see which documents are damaged; restore a backup with"
    " 'knowledge restore BACKUP --data DIR', or remove these documents and add them again."
)


class TableVersion(Protocol):
    @property
    def version(self) -> int:
        """Another number after every commit that changed one of the tables, before any other thread learns of it."""


class Database(Protocol):
    def read(self) -> AbstractContextManager[Connection]:
        """A connection for reading; each statement sees the newest commit."""

    def snapshot(self) -> AbstractContextManager[Connection]:
        """A connection for reading whose statements all see the same moment."""

    def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction and wait until it is durable; an error in it rolls back nothing but itself."""

    def watch_tables(self, *tables: Table) -> TableVersion:
        """Count the commits that change these tables."""

    def size_bytes(self) -> int: ...

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy into a new file while others read and write."""

    def sweep_copies(self) -> None:
        """Remove copies made before migrations that are old enough, and partial ones."""

    def close(self) -> None: ...


def get_inserted_id(result: CursorResult[Any]) -> int:
    """The number that the database gave to an inserted row."""
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])
