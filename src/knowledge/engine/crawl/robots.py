"""robots.txt: read once for each origin, and obeyed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from knowledge.engine.crawl.addresses import absolute, origin
from knowledge.engine.crawl.site_reader import SiteReader
from knowledge.engine.fetch.client import PRODUCT, Fetched
from knowledge.errors import KnowledgeError, Unreadable

MOST_BYTES = 512 << 10
MOST_HOPS = 5

Get = Callable[[str, int], Awaitable[Fetched]]
"""Fetches an address of at most so many bytes, patiently and with manners."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one origin allows us."""

    text: str | None = None
    """None where there is no robots.txt: everything is allowed."""
    reader: SiteReader | None = None
    trouble: str | None = None
    """Why it could not be read: nothing is allowed then, as nobody knows what it says."""
    unreachable: KnowledgeError | None = None
    """Set where the host itself could not be reached, or must not be."""
    delay: float | None = None
    sitemaps: tuple[str, ...] = ()

    async def refuse(self, url: str) -> str | None:
        """Why a page must not be fetched; None when it may."""
        if self.trouble is not None:
            return self.trouble
        if self.text is None or self.reader is None:
            return None
        try:
            allowed = await self.reader.may_fetch(self.text, url, PRODUCT)
        except Unreadable as error:
            return f"robots.txt could not be read: {error}"
        return None if allowed else "robots.txt does not allow it"


class RobotsBook:
    """The rules of every origin that a crawl meets."""

    def __init__(self, get: Get, reader: SiteReader) -> None:
        self._get, self._reader = get, reader
        self._rules: dict[str, asyncio.Future[Rules]] = {}

    async def rules(self, url: str) -> Rules:
        place = origin(url)
        if place not in self._rules:
            self._rules[place] = asyncio.ensure_future(read_robots(place, self._get, self._reader))
        return await self._rules[place]


async def read_robots(place: str, get: Get, reader: SiteReader) -> Rules:
    """4xx means that there are no rules; a server that fails means that nobody knows them."""
    url = f"{place}/robots.txt"
    try:
        fetched = await follow(url, get)
    except KnowledgeError as error:
        return Rules(trouble=f"robots.txt could not be read: {error}", unreachable=error)
    if fetched.status >= 500 or fetched.status == 429:
        return Rules(trouble=f"robots.txt could not be read: HTTP {fetched.status}")
    if fetched.status != 200 or _is_page(fetched):
        return Rules()
    text = fetched.body.decode("utf-8-sig", "replace").replace("\0", "")
    try:
        said = await reader.robots(text, place, PRODUCT)
    except Unreadable as error:
        return Rules(trouble=f"robots.txt could not be read: {error}")
    return Rules(text, reader, delay=said.delay, sitemaps=said.sitemaps)


async def follow(url: str, get: Get) -> Fetched:
    """Fetch something that is no page, and follow where it was moved to."""
    fetched = await get(url, MOST_BYTES)
    for _ in range(MOST_HOPS):
        target = fetched.location and absolute(url, fetched.location)
        if not target:
            break
        fetched = await get(target, MOST_BYTES)
    return fetched


def _is_page(fetched: Fetched) -> bool:
    """Sites without a robots.txt often answer with their front page."""
    return fetched.body[:200].lstrip().lower().startswith((b"<!doctype", b"<html"))
