"""Good manners towards a host: never faster than it wants to be asked, and patient when it asks for patience."""

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
        """The answer, once the site is willing to give one, or the last refusal."""
        host, attempt = urlsplit(url).netloc, 0
        while True:
            await self._rate_limiter.wait_turn(host, delay)
            try:
                fetched = await self._fetcher.get(url, max_bytes, headers)
            except FetchFailed:
                if attempt:
                    raise
                wait = self._retry_policy.backoff_seconds(attempt, None)  # a connection that broke is tried once more
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
"""A robots.txt that wants more than this between two pages is taken at this."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry policy with exponential backoff that honours Retry-After."""

    attempts: int = 3
    first_wait_seconds: float = 2.0
    max_wait_seconds: float = 60.0

    def backoff_seconds(self, attempt: int, retry_after_seconds: float | None) -> float | None:
        """The seconds until the next attempt; None when it is not worth it, or the site wants longer than we wait."""
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
        """Wait until this host may be asked again; `delay` is what its robots.txt wants."""
        place = self._hosts.setdefault(host, _HostState())
        async with place.lock:
            pause = place.next_at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            place.next_at = time.monotonic() + max(self._delay, min(delay or 0.0, MAX_ROBOTS_DELAY_SECONDS))

    def pause_host(self, host: str, seconds: float) -> None:
        """Leave a host alone for a while."""
        place = self._hosts.setdefault(host, _HostState())
        place.next_at = max(place.next_at, time.monotonic() + seconds)
