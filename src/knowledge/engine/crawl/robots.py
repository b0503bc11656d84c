"""Fetches robots.txt once per origin and applies its rules (RFC 9309)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from knowledge.engine.crawl.site_reader import SiteReader
from knowledge.engine.crawl.urls import origin_of, resolve_link
from knowledge.engine.fetch.client import PRODUCT_TOKEN, FetchResponse
from knowledge.errors import KnowledgeError, Unreadable

MAX_ROBOTS_BYTES = 512 << 10
MAX_ROBOTS_REDIRECTS = 5

FetchFile = Callable[[str, int], Awaitable[FetchResponse]]
"""Fetches a URL with a byte limit, rate limited and with retries."""


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The robots.txt rules of one origin."""

    text: str | None = None
    """None without a robots.txt: everything is allowed."""
    reader: SiteReader | None = None
    read_error: str | None = None
    """Set if robots.txt could not be read: nothing is allowed, as RFC 9309 section 2.3.1.4 requires."""
    unreachable: KnowledgeError | None = None
    """The error if the host could not be reached or is forbidden."""
    delay: float | None = None
    sitemaps: tuple[str, ...] = ()

    async def find_refusal(self, url: str) -> str | None:
        """Return why a URL must not be fetched; None if it may."""
        if self.read_error is not None:
            return self.read_error
        if self.text is None or self.reader is None:
            return None
        try:
            allowed = await self.reader.may_fetch(self.text, url, PRODUCT_TOKEN)
        except Unreadable as error:
            return f"robots.txt could not be read: {error}"
        return None if allowed else "robots.txt does not allow it"


class RobotsCache:
    """Caches the rules of each origin during a crawl."""

    def __init__(self, get: FetchFile, reader: SiteReader) -> None:
        self._get, self._reader = get, reader
        self._rules: dict[str, asyncio.Future[RobotsRules]] = {}

    async def get_rules(self, url: str) -> RobotsRules:
        origin = origin_of(url)
        if origin not in self._rules:
            self._rules[origin] = asyncio.ensure_future(fetch_robots(origin, self._get, self._reader))
        return await self._rules[origin]


async def fetch_robots(origin_url: str, get: FetchFile, reader: SiteReader) -> RobotsRules:
    """Fetch and parse robots.txt: 4xx means no rules, 429 and 5xx forbid everything."""
    url = f"{origin_url}/robots.txt"
    try:
        fetched = await fetch_following_redirects(url, get)
    except KnowledgeError as error:
        return RobotsRules(read_error=f"robots.txt could not be read: {error}", unreachable=error)
    if fetched.status >= 500 or fetched.status == 429:
        return RobotsRules(read_error=f"robots.txt could not be read: HTTP {fetched.status}")
    if fetched.status != 200 or _is_html_page(fetched):
        return RobotsRules()
    text = fetched.body.decode("utf-8-sig", "replace").replace("\0", "")
    try:
        parsed = await reader.parse_robots(text, origin_url, PRODUCT_TOKEN)
    except Unreadable as error:
        return RobotsRules(read_error=f"robots.txt could not be read: {error}")
    return RobotsRules(text, reader, delay=parsed.delay, sitemaps=parsed.sitemaps)


async def fetch_following_redirects(url: str, get: FetchFile) -> FetchResponse:
    """Fetch a file and follow up to MAX_ROBOTS_REDIRECTS redirects."""
    fetched = await get(url, MAX_ROBOTS_BYTES)
    for _ in range(MAX_ROBOTS_REDIRECTS):
        target = fetched.location and resolve_link(url, fetched.location)
        if not target:
            break
        fetched = await get(target, MAX_ROBOTS_BYTES)
    return fetched


def _is_html_page(fetched: FetchResponse) -> bool:
    # Sites without a robots.txt often answer with their front page and status 200.
    return fetched.body[:200].lstrip().lower().startswith((b"<!doctype", b"<html"))
