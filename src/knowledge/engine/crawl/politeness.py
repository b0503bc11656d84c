"""Good manners towards a host: never faster than it wants to be asked, and patient when it asks for patience."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    Mapping,
)
from dataclasses import (
    dataclass,
    field,
)
from email.utils import (
    parsedate_to_datetime,
)
from urllib.parse import (
    urlsplit,
)

from knowledge.engine.fetch.client import (
    Fetched,
    Fetcher,
)
from knowledge.errors import (
    FetchFailed,
)
from knowledge.model import (
    now,
)

BUSY = frozenset({429, 500, 502, 503, 504})


class Asker:
    def __init__(self, fetcher: Fetcher, manners: Manners, retrying: Retrying) -> None:
        self._fetcher, self._manners, self._retrying = fetcher, manners, retrying

    async def get(
        self, url: str, most: int, headers: Mapping[str, str] | None = None, delay: float | None = None
    ) -> Fetched:
        """The answer, once the site is willing to give one, or the last refusal."""
        host, attempt = urlsplit(url).netloc, 0
        while True:
            await self._manners.turn(host, delay)
            try:
                fetched = await self._fetcher.get(url, most, headers)
            except FetchFailed:
                if attempt:
                    raise
                wait = self._retrying.wait(attempt, None)  # a connection that broke is tried once more
            else:
                if fetched.status not in BUSY:
                    return fetched
                wait = self._retrying.wait(attempt, retry_after(fetched.headers.get("retry-after")))
                if wait is None:
                    return fetched
            attempt += 1
            self._manners.rest(host, wait or 0.0)

    async def head(self, url: str, delay: float | None = None) -> Fetched:
        await self._manners.turn(urlsplit(url).netloc, delay)
        return await self._fetcher.head(url)


LONGEST_DELAY = 60.0
"""A robots.txt that wants more than this between two pages is taken at this."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """How often a busy site is asked again, and after how many seconds: doubled each time."""

    attempts: int = 3
    first_wait: float = 2.0
    longest_wait: float = 60.0

    def wait(self, attempt: int, asked_for: float | None) -> float | None:
        """The seconds until the next attempt; None when it is not worth it, or the site wants longer than we wait."""
        if attempt >= self.attempts:
            return None
        pause = max(self.first_wait * 2**attempt, asked_for or 0.0)
        return pause if pause <= self.longest_wait else None


@dataclass(slots=True)
class _Host:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_at: float = 0.0


class Manners:
    """Shared by all crawls of a process, so that two of them do not ask one host twice as often."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._hosts: dict[str, _Host] = {}

    async def turn(self, host: str, delay: float | None = None) -> None:
        """Wait until this host may be asked again; `delay` is what its robots.txt wants."""
        place = self._hosts.setdefault(host, _Host())
        async with place.turn:
            pause = place.next_at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            place.next_at = time.monotonic() + max(self._delay, min(delay or 0.0, LONGEST_DELAY))

    def rest(self, host: str, seconds: float) -> None:
        """Leave a host alone for a while."""
        place = self._hosts.setdefault(host, _Host())
        place.next_at = max(place.next_at, time.monotonic() + seconds)


def retry_after(header: str | None) -> float | None:
    """The seconds that a Retry-After header asks for, whichever way it is written."""
    if not header:
        return None
    if header.strip().isdecimal():
        return float(header.strip()[:9])
    try:
        moment = parsedate_to_datetime(header)
        return max((moment - now()).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
