"""Where a site lists its own pages: sitemaps (also packed, also lists of lists) and llms.txt."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

from knowledge.engine.crawl.addresses import absolute, origin
from knowledge.errors import KnowledgeError

if TYPE_CHECKING:  # a child finds the addresses in the lists, and has no use for what fetches them
    from knowledge.engine.crawl.robots import Get
    from knowledge.engine.crawl.site_reader import SitemapRead, SiteReader

MOST_BYTES = 10 << 20
MOST_UNPACKED = 50 << 20
MOST_FILES = 20
MOST_ADDRESSES = 5000
LOCATION = re.compile(r"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?([^<\]]{1,2000})")
IS_INDEX = re.compile(r"<(?:\w+:)?sitemapindex[\s>]")
MARKDOWN_LINK = re.compile(r"\[[^\[\]\n]{0,500}\]\(\s*<?([^\s()<>]{1,2000})")


async def listed_pages(start: str, places: Sequence[str], get: Get, reader: SiteReader) -> list[str]:
    """What the sitemaps of a site name, those that its robots.txt tells of or else the usual one."""
    found: dict[str, None] = {}
    async for url in _walk(places or [f"{origin(start)}/sitemap.xml"], get, reader):
        found[url] = None
        if len(found) >= MOST_ADDRESSES:
            break
    return list(found)


async def _walk(places: Sequence[str], get: Get, reader: SiteReader) -> AsyncIterator[str]:
    """Lists of lists are followed to a fixed number of files, each read once."""
    waiting, seen = list(places), set(places)
    while waiting and len(seen) <= MOST_FILES + len(places):
        sitemap = await _read(waiting.pop(0), get, reader)
        if sitemap is None:
            continue
        if sitemap.index:
            fresh = [url for url in dict.fromkeys(sitemap.urls) if url not in seen][:MOST_FILES]
            seen.update(fresh)
            waiting += fresh
        else:
            for url in sitemap.urls:
                yield url


async def _read(place: str, get: Get, reader: SiteReader) -> SitemapRead | None:
    url = absolute(place, place)
    if url is None:
        return None
    try:
        fetched = await get(url, MOST_BYTES)
        target = fetched.location and absolute(url, fetched.location)
        if target:
            fetched = await get(target, MOST_BYTES)
        return await reader.sitemap(fetched.body, place) if fetched.status == 200 else None
    except KnowledgeError:
        return None  # a list that cannot be read is a list less; the links remain


async def told_to_readers(start: str, get: Get, reader: SiteReader) -> tuple[str, ...]:
    """The pages that an llms.txt links to."""
    place = f"{origin(start)}/llms.txt"
    try:
        fetched = await get(place, MOST_BYTES)
        return await reader.llms(fetched.body, place) if fetched.status == 200 else ()
    except KnowledgeError:
        return ()


# -- in a child ---------------------------------------------------------------------------------


def is_index(text: str) -> bool:
    """Whether a sitemap lists other sitemaps."""
    return IS_INDEX.search(text[:2000]) is not None


def locations(text: str) -> Iterator[str]:
    """The addresses of a sitemap. No XML parser is needed for this, and so none can be tricked."""
    if "<" not in text[:1000]:
        yield from (line.strip() for line in text.splitlines() if line.startswith("http"))
        return
    for found in LOCATION.finditer(text):
        yield html.unescape(found[1].strip())


def linked_pages(text: str, place: str) -> list[str]:
    """The pages that an llms.txt links to; none where it is a web page, as sites without one answer."""
    if text.lstrip()[:1] == "<":
        return []
    links = (absolute(place, found[1]) for found in MARKDOWN_LINK.finditer(text))
    return [url for url in dict.fromkeys(links) if url][:MOST_ADDRESSES]
