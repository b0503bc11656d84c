"""Where spent allowances are written down: in memory, in a file of the data folder, or with a service."""

from __future__ import annotations

import secrets
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
from knowledge.surfaces.http.rate_limit_file import SpentFile

if TYPE_CHECKING:
    from limits.storage import MovingWindowSupport

FILE = "allowances.db"
SWEEP_EVERY = 1024
"""How many draws go by, at least, between two looks at what nobody counts any longer."""
MAX_KEYS = 65_536
"""How many callers are remembered at once; about 30 MB with the default limits."""
LEVELS = 8
"""Into how many classes callers fall by how much of their allowance they have used."""
EXACT_LIMIT, SLICES = 128, 128
"""Up to this limit every draw is remembered by itself, above it by so many slices of the window."""


class Book(Protocol):
    """A moving window for each key, as the storages of the limits library have it."""

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool: ...

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the oldest entry that still counts was made, and how many count."""


class Window:
    """What one key has spent: when, and how often."""

    __slots__ = ("counts", "ends", "level", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.counts = array("L")
        self.ends = 0.0
        self.level = 0

    def forget(self, since: float) -> None:
        """Drop what was spent before; what is dropped stands at the front."""
        gone = bisect_right(self.times, since)
        if gone:
            del self.times[:gone], self.counts[:gone]

    def spend(self, now: float, amount: int, slice_s: float) -> None:
        """Draws within one slice of the window count as one, of the last of them, so that they expire no earlier."""
        if self.times and slice_s and self.times[-1] // slice_s == now // slice_s:
            self.times[-1] = now
            self.counts[-1] += amount
        else:
            self.times.append(now)
            self.counts.append(amount)


class Ledger:
    """In memory, for one process, with a bound on its size. The library's own starts a thread for every call.

    When it is full, the key that has used the least of its allowance is forgotten, the oldest of these first. So who
    comes from many addresses makes us forget those addresses, and not a count that is close to its limit.
    """

    def __init__(self, clock: Callable[[], float] = time.time, max_keys: int = MAX_KEYS) -> None:
        self._clock, self._max_keys = clock, max_keys
        self._secret = secrets.token_bytes(16)
        self._windows: dict[bytes, Window] = {}
        self._levels: list[OrderedDict[bytes, None]] = [OrderedDict() for _ in range(LEVELS + 1)]
        """The keys by how much of their allowance they used, in the order in which they came there.

        The first of a plain dict is slow to find once many before it were removed.
        """
        self._until_sweep = SWEEP_EVERY

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
            window.forget(now - expiry)
        spent = sum(window.counts) + amount
        if spent > limit:
            return False
        window.spend(now, amount, expiry / SLICES if limit > EXACT_LIMIT else 0.0)
        window.ends = now + expiry
        self._move(digest, window, LEVELS * spent // limit)
        self._sweep(now)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        now, window = self._clock(), self._windows.get(self._digest(key))
        if window is None:
            return now, 0
        window.forget(now - expiry)
        return (window.times[0] if window.times else now), sum(window.counts)

    def _digest(self, key: str) -> bytes:
        """Shorter than the key, which a stranger may make long."""
        return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16, key=self._secret).digest()

    def _add(self, digest: bytes) -> Window:
        if len(self._windows) >= self._max_keys:
            least = next(level for level in self._levels if level)
            self._remove(next(iter(least)))
        window = self._windows[digest] = Window()
        self._levels[0][digest] = None
        return window

    def _move(self, digest: bytes, window: Window, level: int) -> None:
        del self._levels[window.level][digest]
        self._levels[level][digest] = None
        window.level = level

    def _remove(self, digest: bytes) -> None:
        del self._levels[self._windows.pop(digest).level][digest]

    def _sweep(self, now: float) -> None:
        """Forget the keys of which nothing counts any longer."""
        self._until_sweep -= 1
        if self._until_sweep > 0:
            return
        for digest in [digest for digest, window in self._windows.items() if window.ends <= now]:
            self._remove(digest)
        self._until_sweep = max(SWEEP_EVERY, len(self._windows))


class Elsewhere:
    """With a service, through the limits library; its faults are ours to word."""

    def __init__(self, storage: MovingWindowSupport) -> None:
        self._storage = storage

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        with self._worded():
            return self._storage.acquire_entry(key, limit, expiry, amount)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        with self._worded():
            return self._storage.get_moving_window(key, limit, expiry)

    @contextmanager
    def _worded(self) -> Iterator[None]:
        from limits.errors import StorageError

        try:
            yield
        except StorageError as error:
            raise StorageFailed(f"The storage of allowances does not answer: {error.storage_error}") from error


def open_book(storage: str, data: Path) -> Book:
    """What the setting names; a sentence where it names nothing that can be used."""
    if storage == "memory":
        return Ledger()
    return SpentFile(data / FILE) if storage == "file" else _elsewhere(storage)


def _elsewhere(storage: str) -> Elsewhere:
    from limits._storage_scheme import SCHEMES
    from limits.errors import ConfigurationError
    from limits.storage import MovingWindowSupport, storage_from_string

    scheme = storage.partition(":")[0]
    if scheme not in SCHEMES:
        raise _wrong(scheme, "is not known")
    try:
        opened = storage_from_string(storage, wrap_exceptions=True)
    except ConfigurationError as error:
        raise MissingDependency(
            f"Allowances are to be kept with {scheme}, whose client is not installed",
            hint=f"pip install 'limits[{scheme.partition('+')[0]}]'",
        ) from error
    if not isinstance(opened, MovingWindowSupport):
        raise _wrong(scheme, "cannot hold a moving window")
    return Elsewhere(opened)


def _wrong(scheme: str, why: str) -> InvalidParameter:
    return InvalidParameter(
        f"The setting KNOWLEDGE_RATE_LIMIT_STORAGE is wrong: '{scheme[:40]}' {why}",
        hint="Use memory, file, or a URI such as redis://127.0.0.1:6379.",
        parameter="rate_limit_storage",
    )
