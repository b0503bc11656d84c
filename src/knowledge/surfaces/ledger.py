"""Where spent allowances are written down: in memory, in a file of the data folder, or with a service."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from knowledge.errors import InvalidParameter, MissingDependency, StorageFailed
from knowledge.store.spent import SpentFile

if TYPE_CHECKING:
    from limits.storage import MovingWindowSupport

FILE = "allowances.db"
SWEEP_EVERY = 1024
"""How many draws go by, at least, between two looks at what nobody counts any longer."""


class Book(Protocol):
    """A moving window for each key, as the storages of the limits library have it."""

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool: ...

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the oldest entry that still counts was made, and how many count."""


class Ledger:
    """In memory, for one process. The library's own starts a thread for every call and never forgets a key."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._spent: dict[str, deque[float]] = {}
        self._ends: dict[str, float] = {}
        self._until_sweep = SWEEP_EVERY

    def __len__(self) -> int:
        return len(self._spent)

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        now = self._clock()
        spent = self._window(key, now - expiry)
        if len(spent) + amount > limit:
            return False
        spent.extend([now] * amount)
        self._spent[key], self._ends[key] = spent, now + expiry
        self._sweep(now)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        now = self._clock()
        spent = self._window(key, now - expiry)
        return (spent[0] if spent else now), len(spent)

    def _window(self, key: str, since: float) -> deque[float]:
        spent = self._spent.get(key)
        if spent is None:
            return deque()
        while spent and spent[0] <= since:
            spent.popleft()
        return spent

    def _sweep(self, now: float) -> None:
        """Every key costs a little memory, and whoever comes from many addresses makes many."""
        self._until_sweep -= 1
        if self._until_sweep > 0:
            return
        for key in [key for key, end in self._ends.items() if end <= now]:
            del self._spent[key], self._ends[key]
        self._until_sweep = max(SWEEP_EVERY, len(self._ends))


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
