"""Where a site lists its own pages: sitemaps (also packed, also lists of lists) and llms.txt."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator

from knowledge.engine.crawling.addresses import absolute, origin
from knowledge.engine.crawling.robots import Get
from knowledge.engine.fetch_bodies import gunzip
from knowledge.errors import KnowledgeError

MOST_BYTES = 10 << 20
MOST_UNPACKED = 50 << 20
MOST_FILES = 20
MOST_ADDRESSES = 5000
LOCATION = re.compile(r"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?([^<\]]{1,2000})")
IS_INDEX = re.compile(r"<(?:\w+:)?sitemapindex[\s>]")
MARKDOWN_LINK = re.compile(r"\[[^\[\]\n]{0,500}\]\(\s*<?([^\s()<>]{1,2000})")


async def listed_pages(start: str, places: list[str], get: Get) -> list[str]:
    """What the sitemaps of a site name, those that its robots.txt tells of or else the usual one."""
    found: dict[str, None] = {}
    async for url in _walk(places or [f"{origin(start)}/sitemap.xml"], get):
        found[url] = None
        if len(found) >= MOST_ADDRESSES:
            break
    return list(found)


async def _walk(places: list[str], get: Get) -> AsyncIterator[str]:
    """Lists of lists are followed to a fixed number of files, each read once."""
    waiting, seen = list(places), set(places)
    while waiting and len(seen) <= MOST_FILES + len(places):
        place = waiting.pop(0)
        text = await _read(place, get)
        urls = [url for url in (absolute(place, found) for found in locations(text)) if url]
        if IS_INDEX.search(text[:2000]):
            fresh = [url for url in dict.fromkeys(urls) if url not in seen][:MOST_FILES]
            seen.update(fresh)
            waiting += fresh
        else:
            for url in urls:
                yield url


async def _read(place: str, get: Get) -> str:
    url = absolute(place, place)
    if url is None:
        return ""
    try:
        fetched = await get(url, MOST_BYTES)
        target = fetched.location and absolute(url, fetched.location)
        if target:
            fetched = await get(target, MOST_BYTES)
        if fetched.status != 200:
            return ""
        data = fetched.body
        if data.startswith(b"\x1f\x8b"):
            data = gunzip(data, MOST_UNPACKED, place)
    except KnowledgeError:
        return ""  # a list that cannot be read is a list less; the links remain
    return data.decode("utf-8-sig", "replace")


def locations(text: str) -> Iterator[str]:
    """The addresses of a sitemap. No XML parser is needed for this, and so none can be tricked."""
    if "<" not in text[:1000]:
        yield from (line.strip() for line in text.splitlines() if line.startswith("http"))
        return
    for found in LOCATION.finditer(text):
        yield html.unescape(found[1].strip())


async def told_to_readers(start: str, get: Get) -> list[str]:
    """The pages that an llms.txt links to."""
    place = f"{origin(start)}/llms.txt"
    try:
        fetched = await get(place, MOST_BYTES)
    except KnowledgeError:
        return []
    text = fetched.body.decode("utf-8-sig", "replace")
    if fetched.status != 200 or text.lstrip()[:1] == "<":
        return []
    links = (absolute(place, found[1]) for found in MARKDOWN_LINK.finditer(text))
    return [url for url in dict.fromkeys(links) if url][:MOST_ADDRESSES]
