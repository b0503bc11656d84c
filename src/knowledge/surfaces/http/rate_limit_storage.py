"""Storage of rate limit counters: in memory, in a SQLite file of the data folder, or in a service such as Redis."""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from knowledge.errors import InvalidParameter, MissingDependency, StorageFailed
from knowledge.filesystem import file_modes

if TYPE_CHECKING:
    from limits.storage import MovingWindowSupport


CREATE_TABLES = """
CREATE TABLE IF NOT EXISTS spent (key TEXT NOT NULL, at REAL NOT NULL, ends REAL NOT NULL);
CREATE INDEX IF NOT EXISTS spent_by_key ON spent (key, at);
CREATE INDEX IF NOT EXISTS spent_by_end ON spent (ends);
"""
SELECT_WINDOW = "SELECT min(at), count(*) FROM spent WHERE key = ? AND at > ?"
INSERT_ENTRY = "INSERT INTO spent (key, at, ends) VALUES (?, ?, ?)"
DELETE_EXPIRED = "DELETE FROM spent WHERE ends <= ?"
FILE_ENTRIES_PER_SWEEP = 1000
"""Entries written between two deletions of expired ones."""


class FileRateLimitStorage:
    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._entries_written = 0
        with self._translate_errors():
            file_modes.make_folder(path.parent)
            file_modes.create_file(path)
            self._connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
            try:
                self._connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {CREATE_TABLES}")
                self._connection.execute(DELETE_EXPIRED, (clock(),))
            except sqlite3.Error:
                self._connection.close()
                raise

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Record `amount` calls and return True, unless that exceeds the limit within the last `expiry` seconds."""
        with self._lock, self._translate_errors(), self._transaction() as connection:
            now = self._clock()
            _, spent = connection.execute(SELECT_WINDOW, (key, now - expiry)).fetchone()
            if spent + amount > limit:
                return False
            connection.executemany(INSERT_ENTRY, [(key, now, now + expiry)] * amount)
            self._delete_expired(connection, now)
            return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        """Return the time of the oldest entry in the window and the number of entries."""
        with self._lock, self._translate_errors():
            now = self._clock()
            oldest, spent = self._connection.execute(SELECT_WINDOW, (key, now - expiry)).fetchone()
            return (now if oldest is None else oldest), spent

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _delete_expired(self, connection: sqlite3.Connection, now: float) -> None:
        self._entries_written += 1
        if self._entries_written % FILE_ENTRIES_PER_SWEEP == 0:
            connection.execute(DELETE_EXPIRED, (now,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        finally:
            self._connection.execute("COMMIT")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StorageFailed(f"Cannot use {self._path}: {error}", path=str(self._path)) from error


FILENAME = "allowances.db"
MEMORY_ENTRIES_PER_SWEEP = 1024
"""Minimum number of entries between two sweeps for expired windows."""
MAX_KEYS = 65_536
"""Keys in memory at once; about 30 MB with the default limits."""
USAGE_LEVELS = 8
"""Number of classes of keys by the used share of their limit, for eviction."""
MAX_EXACT_ENTRIES, WINDOW_SLICES = 128, 128
"""Limits up to 128 store each call; higher limits count calls in 128 slices of the window, which bounds memory."""


class RateLimitStorage(Protocol):
    """A moving window for each key, with the methods of the `limits` library's storages."""

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool: ...

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return the time of the oldest entry in the window and the number of entries."""


@runtime_checkable
class ClosableStorage(Protocol):
    """A storage with a file or connections."""

    def close(self) -> None: ...


class MovingWindow:
    """The entries of one key: times and counts."""

    __slots__ = ("counts", "expires_at", "level", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.counts = array("L")
        self.expires_at = 0.0
        self.level = 0

    def drop_before(self, since: float) -> None:
        """Drop the entries up to a time; the entries are sorted by time."""
        expired = bisect_right(self.times, since)
        if expired:
            del self.times[:expired], self.counts[:expired]

    def add_entries(self, now: float, amount: int, slice_s: float) -> None:
        """Add calls; calls in the same slice share one entry with the latest time, so none expires too early."""
        if self.times and slice_s and self.times[-1] // slice_s == now // slice_s:
            self.times[-1] = now
            self.counts[-1] += amount
        else:
            self.times.append(now)
            self.counts.append(amount)


class MemoryRateLimitStorage:
    """Sliding-window rate limit counters in memory, bounded by evicting the least used keys.

    When it is full, the oldest key of the lowest usage level is evicted. A client with many addresses therefore evicts
    its own addresses and not a counter that is close to its limit.
    """

    def __init__(self, clock: Callable[[], float] = time.time, max_keys: int = MAX_KEYS) -> None:
        self._clock, self._max_keys = clock, max_keys
        self._secret = secrets.token_bytes(16)
        self._windows: dict[bytes, MovingWindow] = {}
        self._levels: list[OrderedDict[bytes, None]] = [OrderedDict() for _ in range(USAGE_LEVELS + 1)]
        """Keys by usage level, in the order of arrival at that level.

        An OrderedDict, because finding the first key of a dict takes linear time after many removals at its front.
        """
        self._entries_until_sweep = MEMORY_ENTRIES_PER_SWEEP

    def __len__(self) -> int:
        return len(self._windows)

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        now, digest = self._clock(), self._digest(key)
        window = self._windows.get(digest)
        if window is None:
            if amount > limit:
                return False
            window = self._add(digest)
        else:
            window.drop_before(now - expiry)
        spent = sum(window.counts) + amount
        if spent > limit:
            return False
        window.add_entries(now, amount, expiry / WINDOW_SLICES if limit > MAX_EXACT_ENTRIES else 0.0)
        window.expires_at = now + expiry
        self._set_level(digest, window, USAGE_LEVELS * spent // limit)
        self._drop_expired(now)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        now, window = self._clock(), self._windows.get(self._digest(key))
        if window is None:
            return now, 0
        window.drop_before(now - expiry)
        return (window.times[0] if window.times else now), sum(window.counts)

    def _digest(self, key: str) -> bytes:
        """Return a fixed-size digest, because clients can choose long keys."""
        return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16, key=self._secret).digest()

    def _add(self, digest: bytes) -> MovingWindow:
        if len(self._windows) >= self._max_keys:
            least = next(level for level in self._levels if level)
            self._remove(next(iter(least)))
        window = self._windows[digest] = MovingWindow()
        self._levels[0][digest] = None
        return window

    def _set_level(self, digest: bytes, window: MovingWindow, level: int) -> None:
        del self._levels[window.level][digest]
        self._levels[level][digest] = None
        window.level = level

    def _remove(self, digest: bytes) -> None:
        del self._levels[self._windows.pop(digest).level][digest]

    def _drop_expired(self, now: float) -> None:
        """Remove the keys whose windows have expired, once in MEMORY_ENTRIES_PER_SWEEP calls."""
        self._entries_until_sweep -= 1
        if self._entries_until_sweep > 0:
            return
        for digest in [digest for digest, window in self._windows.items() if window.expires_at <= now]:
            self._remove(digest)
        self._entries_until_sweep = max(MEMORY_ENTRIES_PER_SWEEP, len(self._windows))


class RemoteRateLimitStorage:
    """Counters in a service such as Redis through the `limits` library; translates its errors."""

    def __init__(self, storage: MovingWindowSupport) -> None:
        self._storage = storage

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        with self._translate_errors():
            return self._storage.acquire_entry(key, limit, expiry, amount)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        with self._translate_errors():
            return self._storage.get_moving_window(key, limit, expiry)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        from limits.errors import StorageError

        try:
            yield
        except StorageError as error:
            raise StorageFailed(f"The rate limit storage does not answer: {error.storage_error}") from error


def open_storage(storage: str, data: Path, database_url: str | None = None) -> RateLimitStorage:
    """Open the storage that KNOWLEDGE_RATE_LIMIT_STORAGE names."""
    if storage == "memory":
        return MemoryRateLimitStorage()
    if storage == "database" and database_url is not None:
        from knowledge.store.cluster.rate_limits import DatabaseRateLimitStorage  # needs the driver of PostgreSQL

        return DatabaseRateLimitStorage(database_url)
    return FileRateLimitStorage(data / FILENAME) if storage == "file" else _open_remote_storage(storage)


def _open_remote_storage(storage: str) -> RemoteRateLimitStorage:
    from limits.errors import ConfigurationError
    from limits.storage import MovingWindowSupport, storage_from_string

    scheme = storage.partition(":")[0]
    try:
        opened = storage_from_string(storage, wrap_exceptions=True)
    except ConfigurationError as error:
        if "unknown storage scheme" in str(error):  # the library raises the same class for a missing client
            raise _invalid_storage_error(scheme, "is unknown") from error
        raise MissingDependency(
            f"The client for the rate limit storage '{scheme[:40]}' is not installed",
            hint=f"Run: pip install 'limits[{scheme.partition('+')[0]}]'",
        ) from error
    if not isinstance(opened, MovingWindowSupport):
        raise _invalid_storage_error(scheme, "does not support moving windows")
    return RemoteRateLimitStorage(opened)


def _invalid_storage_error(scheme: str, why: str) -> InvalidParameter:
    return InvalidParameter(
        f"The setting KNOWLEDGE_RATE_LIMIT_STORAGE is invalid: the scheme '{scheme[:40]}' {why}",
        hint="Use memory, file, database, or a URI such as redis://127.0.0.1:6379.",
        parameter="rate_limit_storage",
    )
