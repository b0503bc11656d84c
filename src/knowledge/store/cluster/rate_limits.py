"""Rate limit counters in the database, so that a limit holds for all servers together."""

from __future__ import annotations

import threading
from hashlib import blake2b

from sqlalchemy import Engine, create_engine, text

from knowledge.errors import StorageFailed
from knowledge.store.postgres import locks
from knowledge.store.postgres.failures import DRIVER_ERRORS, wrap_postgres_error
from knowledge.store.postgres.postgres import parse_database_url

MICROSECONDS_PER_SECOND = 1_000_000
MAX_EXACT_CALLS, WINDOW_SLICES = 128, 128
"""Limits up to 128 store each call; higher limits count calls in 128 slices of the window, which bounds the rows."""
CALLS_PER_SWEEP = 500
POOL_SIZE, MAX_CONNECTIONS, POOL_WAIT_SECONDS = 1, 4, 2
OPTIONS = (
    "-c lock_timeout=2s -c statement_timeout=5s -c idle_in_transaction_session_timeout=5s -c synchronous_commit=off"
)

_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
_COUNT_CALL = text(
    f"""
    WITH clock AS (SELECT {_NOW} AS now)
    INSERT INTO rate_limit_entries AS entry (key, slice, at, calls, ends)
    SELECT :key, clock.now / :slice, clock.now, :amount, clock.now + :window FROM clock
    WHERE :amount + (
        SELECT coalesce(sum(calls), 0) FROM rate_limit_entries WHERE key = :key AND at > clock.now - :window
    ) <= :limit
    ON CONFLICT (key, slice) DO UPDATE
    SET calls = entry.calls + excluded.calls, at = excluded.at, ends = excluded.ends
    """
)
_READ_WINDOW = text(
    f"SELECT coalesce(min(at), {_NOW}), coalesce(sum(calls), 0) FROM rate_limit_entries"
    f" WHERE key = :key AND at > {_NOW} - :window"
)
_DELETE_EXPIRED = text(f"DELETE FROM rate_limit_entries WHERE ends <= {_NOW}")


class DatabaseRateLimitStorage:
    """A moving window for each key, with a small pool of connections that is opened with the first call."""

    def __init__(self, url: str) -> None:
        self._url = parse_database_url(url)
        self._lock = threading.Lock()
        self._opened: Engine | None = None
        self._calls_until_sweep = CALLS_PER_SWEEP

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Record `amount` calls and return True, unless that exceeds the limit within the last `expiry` seconds."""
        digest, window = _digest(key), expiry * MICROSECONDS_PER_SECOND
        values = {
            "key": digest,
            "slice": window // WINDOW_SLICES if limit > MAX_EXACT_CALLS else 1,
            "amount": amount,
            "window": window,
            "limit": limit,
        }
        try:
            with self._engine.begin() as connection:
                locks.lock_rate_limit(connection, digest)
                taken = connection.execute(_COUNT_CALL, values).rowcount > 0
                if self._is_sweep_due():
                    connection.execute(_DELETE_EXPIRED)
        except DRIVER_ERRORS as error:
            raise self._wrap_error(error) from error
        return taken

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        """Return the time of the oldest entry in the window and the number of calls."""
        try:
            with self._engine.connect() as connection:
                values = {"key": _digest(key), "window": expiry * MICROSECONDS_PER_SECOND}
                oldest, calls = connection.execute(_READ_WINDOW, values).one()
        except DRIVER_ERRORS as error:
            raise self._wrap_error(error) from error
        return oldest / MICROSECONDS_PER_SECOND, int(calls)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.dispose()

    @property
    def _engine(self) -> Engine:
        with self._lock:
            if self._opened is None:
                self._opened = create_engine(
                    self._url,
                    connect_args={"connect_timeout": 5, "options": OPTIONS},
                    pool_size=POOL_SIZE,
                    max_overflow=MAX_CONNECTIONS - POOL_SIZE,
                    pool_timeout=POOL_WAIT_SECONDS,
                    pool_pre_ping=True,
                )
            return self._opened

    def _is_sweep_due(self) -> bool:
        with self._lock:
            self._calls_until_sweep -= 1
            if self._calls_until_sweep > 0:
                return False
            self._calls_until_sweep = CALLS_PER_SWEEP
            return True

    def _wrap_error(self, error: BaseException) -> StorageFailed:
        return wrap_postgres_error(error, self._url)


def _digest(key: str) -> bytes:
    """Return a fixed-size digest, because clients can choose long keys."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
