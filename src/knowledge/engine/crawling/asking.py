"""Asking a site patiently: in turn, and again after a while when it is busy."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from knowledge.engine.crawling.manners import Manners, Retrying, retry_after
from knowledge.engine.fetch import Fetched, Fetcher
from knowledge.errors import FetchFailed

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
