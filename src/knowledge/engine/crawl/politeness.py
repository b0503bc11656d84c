"""Crawler politeness: a rate limit per host, and retries with exponential backoff and Retry-After."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from knowledge.engine.fetch.client import Fetcher, FetchResponse
from knowledge.errors import FetchFailed
from knowledge.retry_after import parse_retry_after

RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})


class PoliteClient:
    def __init__(self, fetcher: Fetcher, rate_limiter: HostRateLimiter, retry_policy: RetryPolicy) -> None:
        self._fetcher, self._rate_limiter, self._retry_policy = fetcher, rate_limiter, retry_policy

    async def get(
        self, url: str, max_bytes: int, headers: Mapping[str, str] | None = None, delay: float | None = None
    ) -> FetchResponse:
        """Send a GET and retry 429 and 5xx responses; return the last response when the retries are used up."""
        host, attempt = urlsplit(url).netloc, 0
        while True:
            await self._rate_limiter.wait_turn(host, delay)
            try:
                fetched = await self._fetcher.get(url, max_bytes, headers)
            except FetchFailed:
                if attempt:
                    raise
                wait = self._retry_policy.backoff_seconds(attempt, None)  # a broken connection is retried once
            else:
                if fetched.status not in RETRY_STATUSES:
                    return fetched
                wait = self._retry_policy.backoff_seconds(
                    attempt, parse_retry_after(fetched.headers.get("retry-after"))
                )
                if wait is None:
                    return fetched
            attempt += 1
            self._rate_limiter.pause_host(host, wait or 0.0)

    async def head(self, url: str, delay: float | None = None) -> FetchResponse:
        await self._rate_limiter.wait_turn(urlsplit(url).netloc, delay)
        return await self._fetcher.head(url)


MAX_ROBOTS_DELAY_SECONDS = 60.0
"""Cap for the Crawl-delay of a robots.txt."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff that honours Retry-After."""

    attempts: int = 3
    first_wait_seconds: float = 2.0
    max_wait_seconds: float = 60.0

    def backoff_seconds(self, attempt: int, retry_after_seconds: float | None) -> float | None:
        """Return the wait before the next attempt; None without attempts left or beyond `max_wait_seconds`."""
        if attempt >= self.attempts:
            return None
        pause = max(self.first_wait_seconds * 2**attempt, retry_after_seconds or 0.0)
        return pause if pause <= self.max_wait_seconds else None


@dataclass(slots=True)
class _HostState:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_at: float = 0.0


class HostRateLimiter:
    """Rate limit per host, shared by all crawls of the process."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._hosts: dict[str, _HostState] = {}

    async def wait_turn(self, host: str, delay: float | None = None) -> None:
        """Wait until the next request to this host is allowed; `delay` is the Crawl-delay of its robots.txt."""
        state = self._hosts.setdefault(host, _HostState())
        async with state.lock:
            pause = state.next_at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            state.next_at = time.monotonic() + max(self._delay, min(delay or 0.0, MAX_ROBOTS_DELAY_SECONDS))

    def pause_host(self, host: str, seconds: float) -> None:
        """Send no request to a host for the given time."""
        state = self._hosts.setdefault(host, _HostState())
        state.next_at = max(state.next_at, time.monotonic() + seconds)
