"""What callers have spent of their allowances, in a file of its own: it outlives the server, and processes share it.

It is no part of the truth: a machine that loses power may forget the last seconds, so nothing here waits for the disk.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from knowledge.errors import StorageFailed
from knowledge.store import file_modes

SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (key TEXT NOT NULL, at REAL NOT NULL, ends REAL NOT NULL);
CREATE INDEX IF NOT EXISTS spent_by_key ON spent (key, at);
CREATE INDEX IF NOT EXISTS spent_by_end ON spent (ends);
"""
WINDOW = "SELECT min(at), count(*) FROM spent WHERE key = ? AND at > ?"
SPEND = "INSERT INTO spent (key, at, ends) VALUES (?, ?, ?)"
FORGET = "DELETE FROM spent WHERE ends <= ?"
SWEEP_EVERY = 1000
"""How many entries are written between two looks at what has ended."""


class SpentFile:
    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._written = 0
        with self._said():
            file_modes.make_folder(path.parent)
            file_modes.create_file(path)
            self._connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
            try:
                self._connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {SCHEMA}")
                self._connection.execute(FORGET, (clock(),))
            except sqlite3.Error:
                self._connection.close()
                raise

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Spend, unless that would be more than the limit within the last `expiry` seconds."""
        with self._lock, self._said(), self._transaction() as connection:
            now = self._clock()
            _, spent = connection.execute(WINDOW, (key, now - expiry)).fetchone()
            if spent + amount > limit:
                return False
            connection.executemany(SPEND, [(key, now, now + expiry)] * amount)
            self._sweep(connection, now)
            return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        """When the oldest entry that still counts was made, and how many count."""
        with self._lock, self._said():
            now = self._clock()
            oldest, spent = self._connection.execute(WINDOW, (key, now - expiry)).fetchone()
            return (now if oldest is None else oldest), spent

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        self._written += 1
        if self._written % SWEEP_EVERY == 0:
            connection.execute(FORGET, (now,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        finally:
            self._connection.execute("COMMIT")

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StorageFailed(f"Cannot use {self._path}: {error}", path=str(self._path)) from error
