"""Where spent allowances are written down: in memory, in a file of the data folder, or with a service."""

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
from typing import TYPE_CHECKING, Protocol

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
"""How many entries are written between two looks at what has ended."""


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
        """Spend, unless that would be more than the limit within the last `expiry` seconds."""
        with self._lock, self._translate_errors(), self._transaction() as connection:
            now = self._clock()
            _, spent = connection.execute(SELECT_WINDOW, (key, now - expiry)).fetchone()
            if spent + amount > limit:
                return False
            connection.executemany(INSERT_ENTRY, [(key, now, now + expiry)] * amount)
            self._delete_expired(connection, now)
            return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        """When the oldest entry that still counts was made, and how many count."""
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
"""How many draws go by, at least, between two looks at what nobody counts any longer."""
MAX_KEYS = 65_536
"""How many callers are remembered at once; about 30 MB with the default limits."""
USAGE_LEVELS = 8
"""Into how many classes callers fall by how much of their allowance they have used."""
MAX_EXACT_ENTRIES, WINDOW_SLICES = 128, 128
"""Up to this limit every draw is remembered by itself, above it by so many slices of the window."""


class RateLimitStorage(Protocol):
    """A moving window for each key, as the storages of the limits library have it."""

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool: ...

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the oldest entry that still counts was made, and how many count."""


class MovingWindow:
    """The sliding window of one key: when it was used, and how often."""

    __slots__ = ("counts", "expires_at", "level", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.counts = array("L")
        self.expires_at = 0.0
        self.level = 0

    def drop_before(self, since: float) -> None:
        """Drop what was spent before; what is dropped stands at the front."""
        gone = bisect_right(self.times, since)
        if gone:
            del self.times[:gone], self.counts[:gone]

    def add_entries(self, now: float, amount: int, slice_s: float) -> None:
        """Draws within one slice of the window count as one, of the last of them, so that they expire no earlier."""
        if self.times and slice_s and self.times[-1] // slice_s == now // slice_s:
            self.times[-1] = now
            self.counts[-1] += amount
        else:
            self.times.append(now)
            self.counts.append(amount)


class MemoryRateLimitStorage:
    """Sliding-window rate limit counters in memory, bounded by evicting the least used keys.

    When it is full, the key that has used the least of its allowance is forgotten, the oldest of these first. So who
    comes from many addresses makes us forget those addresses, and not a count that is close to its limit.
    """

    def __init__(self, clock: Callable[[], float] = time.time, max_keys: int = MAX_KEYS) -> None:
        self._clock, self._max_keys = clock, max_keys
        self._secret = secrets.token_bytes(16)
        self._windows: dict[bytes, MovingWindow] = {}
        self._levels: list[OrderedDict[bytes, None]] = [OrderedDict() for _ in range(USAGE_LEVELS + 1)]
        """The keys by how much of their allowance they used, in the order in which they came there.

        The first of a plain dict is slow to find once many before it were removed.
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
        """Shorter than the key, which a stranger may make long."""
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
        """Forget the keys of which nothing counts any longer."""
        self._entries_until_sweep -= 1
        if self._entries_until_sweep > 0:
            return
        for digest in [digest for digest, window in self._windows.items() if window.expires_at <= now]:
            self._remove(digest)
        self._entries_until_sweep = max(MEMORY_ENTRIES_PER_SWEEP, len(self._windows))


class RemoteRateLimitStorage:
    """With a service, through the limits library; its faults are ours to word."""

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
            raise StorageFailed(f"The storage of allowances does not answer: {error.storage_error}") from error


def open_storage(storage: str, data: Path) -> RateLimitStorage:
    """What the setting names; a sentence where it names nothing that can be used."""
    if storage == "memory":
        return MemoryRateLimitStorage()
    return FileRateLimitStorage(data / FILENAME) if storage == "file" else _open_remote_storage(storage)


def _open_remote_storage(storage: str) -> RemoteRateLimitStorage:
    from limits.errors import ConfigurationError
    from limits.storage import MovingWindowSupport, storage_from_string

    scheme = storage.partition(":")[0]
    try:
        opened = storage_from_string(storage, wrap_exceptions=True)
    except ConfigurationError as error:
        if "unknown storage scheme" in str(error):  # the library has no other way to tell this from a missing client
            raise _invalid_storage_error(scheme, "is not known") from error
        raise MissingDependency(
            f"Allowances are to be kept with {scheme}, whose client is not installed",
            hint=f"pip install 'limits[{scheme.partition('+')[0]}]'",
        ) from error
    if not isinstance(opened, MovingWindowSupport):
        raise _invalid_storage_error(scheme, "cannot hold a moving window")
    return RemoteRateLimitStorage(opened)


def _invalid_storage_error(scheme: str, why: str) -> InvalidParameter:
    return InvalidParameter(
        f"The setting KNOWLEDGE_RATE_LIMIT_STORAGE is wrong: '{scheme[:40]}' {why}",
        hint="Use memory, file, or a URI such as redis://127.0.0.1:6379.",
        parameter="rate_limit_storage",
    )
