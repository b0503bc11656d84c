"""The Database protocol: serialized write transactions, and reads that never wait for them."""

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


class LookAgain(Exception):
    """Raised by a write whose rows have changed since it read them: it is rolled back and run again."""


class TableVersion(Protocol):
    @property
    def version(self) -> int:
        """Increases with every commit to the watched tables, before `write` returns."""


class Database(Protocol):
    path: Path | None
    """The database file, if the database is a file."""
    product: str
    """Name and version, such as 'SQLite 3.45.1'."""

    def read(self) -> AbstractContextManager[Connection]:
        """Open a connection for reading; each statement sees the newest commit."""

    def snapshot(self) -> AbstractContextManager[Connection]:
        """Open a connection for reading whose statements all see the same commit."""

    def write(self, work: Work[T], *, is_idempotent: bool = False) -> T:
        """Run `work` in a transaction and wait until it is durable; an error rolls back only this work.

        `work` may be run again before the commit, after a conflict or a lost connection. Idempotent work is also run
        again if the connection was lost during the commit, when it is unknown whether it was committed.
        """

    def watch_tables(self, *tables: Table) -> TableVersion:
        """Count the commits that change these tables."""

    def size_bytes(self) -> int: ...

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy into a new file while others read and write."""

    def sweep_copies(self) -> None:
        """Delete expired and partial copies made before migrations."""

    def close(self) -> None: ...


def get_inserted_id(result: CursorResult[Any]) -> int:
    """Return the primary key of an inserted row."""
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])
