"""Rate limit storage: a sliding window in memory and in a file."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from limits.storage import MovingWindowSupport, Storage

from knowledge.errors import InvalidParameter, MissingDependency, StorageFailed
from knowledge.surfaces.http import rate_limit_storage
from knowledge.surfaces.http.rate_limit_storage import (
    FILENAME,
    MEMORY_ENTRIES_PER_SWEEP,
    FileRateLimitStorage,
    MemoryRateLimitStorage,
    RateLimitStorage,
    RemoteRateLimitStorage,
    open_storage,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "file"])
def storage(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> RateLimitStorage:
    if request.param == "memory":
        return MemoryRateLimitStorage(clock)
    opened = FileRateLimitStorage(tmp_path / FILENAME, clock)
    request.addfinalizer(opened.close)
    return opened


def test_a_limit_holds_in_every_sliding_window(storage: RateLimitStorage, clock: Clock) -> None:
    for _ in range(3):
        assert storage.acquire_entry("a", 3, 60)
        clock.now += 20
    assert storage.acquire_entry("a", 3, 60), "the first was sixty seconds ago"
    assert not storage.acquire_entry("a", 3, 60)
    clock.now += 19.9
    assert not storage.acquire_entry("a", 3, 60)
    clock.now += 0.2
    assert storage.acquire_entry("a", 3, 60)


def test_refused_calls_are_not_counted(storage: RateLimitStorage, clock: Clock) -> None:
    assert storage.acquire_entry("a", 1, 60)
    for _ in range(100):
        clock.now += 0.5
        assert not storage.acquire_entry("a", 1, 60)
    clock.now += 10.1
    assert storage.acquire_entry("a", 1, 60)


def test_keys_are_counted_separately(storage: RateLimitStorage) -> None:
    assert storage.acquire_entry("a", 1, 60)
    assert storage.acquire_entry("b", 1, 60)
    assert not storage.acquire_entry("a", 1, 60)


def test_the_window_has_its_oldest_entry_and_the_count(storage: RateLimitStorage, clock: Clock) -> None:
    assert storage.get_moving_window("a", 5, 60) == (clock.now, 0)
    first = clock.now
    storage.acquire_entry("a", 5, 60)
    clock.now += 30
    storage.acquire_entry("a", 5, 60)
    assert storage.get_moving_window("a", 5, 60) == (first, 2)
    clock.now += 31
    assert storage.get_moving_window("a", 5, 60) == (first + 30, 1)


def test_memory_drops_expired_addresses(clock: Clock) -> None:
    storage = MemoryRateLimitStorage(clock)
    for number in range(MEMORY_ENTRIES_PER_SWEEP * 3):
        clock.now += 1
        storage.acquire_entry(f"address:{number}", 10, 60)
    assert len(storage) <= MEMORY_ENTRIES_PER_SWEEP + 61


def test_a_file_keeps_the_counters_over_a_restart(tmp_path: Path, clock: Clock) -> None:
    before = FileRateLimitStorage(tmp_path / FILENAME, clock)
    assert before.acquire_entry("a", 1, 60)
    other = FileRateLimitStorage(tmp_path / FILENAME, clock)  # another process, or the next start after a crash
    assert not other.acquire_entry("a", 1, 60)
    clock.now += 61
    assert other.acquire_entry("a", 1, 60)
    other.close()
    before.close()


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / FILENAME).write_bytes(b"this is no database at all" * 100)
    with pytest.raises(StorageFailed, match=FILENAME):
        FileRateLimitStorage(tmp_path / FILENAME)


@pytest.mark.parametrize(
    ("storage", "error", "words"),
    [
        ("nonsense://x", InvalidParameter, "'nonsense' is unknown"),
        ("async+memory://", InvalidParameter, "moving window"),
        ("redis://127.0.0.1", MissingDependency, "client for the rate limit storage 'redis' is not installed"),
    ],
)
def test_a_storage_that_cannot_be_used_is_refused_with_the_reason(
    storage: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        open_storage(storage, tmp_path)


class Broken(Storage, MovingWindowSupport):
    """A storage service that does not answer, through the limits library."""

    STORAGE_SCHEME = ["broken"]  # noqa: RUF012

    @property
    def base_exceptions(self) -> type[Exception]:
        return ConnectionError

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        raise ConnectionError("nobody there")

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        raise ConnectionError("nobody there")

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        raise NotImplementedError

    def get(self, key: str) -> int:
        raise NotImplementedError

    def get_expiry(self, key: str) -> float:
        raise NotImplementedError

    def check(self) -> bool:
        raise NotImplementedError

    def reset(self) -> int | None:
        raise NotImplementedError

    def clear(self, key: str) -> None:
        raise NotImplementedError


def test_an_unreachable_service_is_a_storage_error(tmp_path: Path) -> None:
    storage = open_storage("broken://", tmp_path)
    assert isinstance(storage, RemoteRateLimitStorage)
    with pytest.raises(StorageFailed, match="nobody there"):
        storage.acquire_entry("a", 1, 60)


def microseconds(work: Callable[[], object], times: int = 2000) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times * 1e6


def test_a_check_in_memory_takes_microseconds() -> None:
    """Measures CPU time; the bound is ten times the usual value."""
    storage = MemoryRateLimitStorage()
    assert microseconds(lambda: storage.acquire_entry("account:7", 1_000_000, 60)) < 30


def test_a_refused_key_is_not_stored(clock: Clock) -> None:
    storage = MemoryRateLimitStorage(clock)
    assert not storage.acquire_entry("a", 1, 60, amount=2)
    assert len(storage) == 0


def test_a_large_limit_is_exact_and_stored_in_slices(clock: Clock) -> None:
    storage = MemoryRateLimitStorage(clock)
    tracemalloc.start()
    try:
        for _ in range(50_000):
            clock.now += 0.001
            assert storage.acquire_entry("a", 50_000, 3600)
        # Allocations by threads of other tests are not counted.
        own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, rate_limit_storage.__file__)])
        size = sum(trace.size for trace in own.traces)
    finally:
        tracemalloc.stop()
    assert not storage.acquire_entry("a", 50_000, 3600)
    assert 0 < size < 20_000
    clock.now += 3600 - 60
    assert not storage.acquire_entry("a", 50_000, 3600)
    clock.now += 90
    assert storage.acquire_entry("a", 50_000, 3600)


def flood(storage: MemoryRateLimitStorage, addresses: int) -> int:
    """Return the bytes that this number of addresses with one call each takes."""
    tracemalloc.start()
    try:
        for number in range(addresses):
            storage.acquire_entry(f"LIMITER/authentication/address:2001:db8::{number:x}/10/1/minute", 10, 60)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_addresses_take_bounded_memory(clock: Clock) -> None:
    storage = MemoryRateLimitStorage(clock, max_keys=5000)
    assert flood(storage, 20_000) < 5000 * 700
    assert len(storage) == 5000


@pytest.mark.long
def test_a_million_addresses_take_less_than_50_mb(clock: Clock) -> None:
    assert flood(MemoryRateLimitStorage(clock), 1_000_000) < 50_000_000


def test_many_addresses_do_not_evict_a_key_at_its_limit(clock: Clock) -> None:
    storage = MemoryRateLimitStorage(clock, max_keys=1000)
    for _ in range(10):
        assert storage.acquire_entry("guesses", 10, 60)
    for _ in range(5):
        assert storage.acquire_entry("half way", 10, 60)
    for number in range(10_000):
        assert storage.acquire_entry(f"address:{number}", 10, 60)
    assert not storage.acquire_entry("guesses", 10, 60)
    assert storage.get_moving_window("half way", 10, 60)[1] == 5


def test_expired_keys_are_removed(clock: Clock) -> None:
    storage = MemoryRateLimitStorage(clock, max_keys=MEMORY_ENTRIES_PER_SWEEP // 2)
    for number in range(MEMORY_ENTRIES_PER_SWEEP // 2):
        for _ in range(10):
            storage.acquire_entry(f"old:{number}", 10, 60)
    clock.now += 61
    for number in range(MEMORY_ENTRIES_PER_SWEEP * 11):
        storage.acquire_entry(f"new:{number}", 10, 60)
    assert all(storage.get_moving_window(f"old:{number}", 10, 60)[1] == 0 for number in range(100))
    assert len(storage) == MEMORY_ENTRIES_PER_SWEEP // 2
