"""Where a site lists its own pages: sitemaps (also packed, also lists of lists) and llms.txt."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

from knowledge.engine.crawl.urls import MAX_URLS, origin_of, resolve_link
from knowledge.errors import KnowledgeError

if TYPE_CHECKING:  # a child finds the addresses in the lists, and has no use for what fetches them
    from knowledge.engine.crawl.robots import FetchFile
    from knowledge.engine.crawl.site_reader import SitemapFile, SiteReader

MAX_SITEMAP_BYTES = 10 << 20
MAX_UNPACKED_BYTES = 50 << 20
MAX_SITEMAP_FILES = 20
LOC_TAG = re.compile(r"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?([^<\]]{1,2000})")
SITEMAP_INDEX_TAG = re.compile(r"<(?:\w+:)?sitemapindex[\s>]")
MARKDOWN_LINK = re.compile(r"\[[^\[\]\n]{0,500}\]\(\s*<?([^\s()<>]{1,2000})")


async def list_sitemap_pages(start: str, places: Sequence[str], get: FetchFile, reader: SiteReader) -> list[str]:
    """What the sitemaps of a site name, those that its robots.txt tells of or else the usual one."""
    found: dict[str, None] = {}
    async for url in _walk_sitemaps(places or [f"{origin_of(start)}/sitemap.xml"], get, reader):
        found[url] = None
        if len(found) >= MAX_URLS:
            break
    return list(found)


async def _walk_sitemaps(places: Sequence[str], get: FetchFile, reader: SiteReader) -> AsyncIterator[str]:
    """Lists of lists are followed to a fixed number of files, each read once."""
    waiting, seen = list(places), set(places)
    while waiting and len(seen) <= MAX_SITEMAP_FILES + len(places):
        sitemap = await _read_sitemap(waiting.pop(0), get, reader)
        if sitemap is None:
            continue
        if sitemap.is_index:
            fresh = [url for url in dict.fromkeys(sitemap.urls) if url not in seen][:MAX_SITEMAP_FILES]
            seen.update(fresh)
            waiting += fresh
        else:
            for url in sitemap.urls:
                yield url


async def _read_sitemap(place: str, get: FetchFile, reader: SiteReader) -> SitemapFile | None:
    url = resolve_link(place, place)
    if url is None:
        return None
    try:
        fetched = await get(url, MAX_SITEMAP_BYTES)
        target = fetched.location and resolve_link(url, fetched.location)
        if target:
            fetched = await get(target, MAX_SITEMAP_BYTES)
        return await reader.parse_sitemap(fetched.body, place) if fetched.status == 200 else None
    except KnowledgeError:
        return None  # a list that cannot be read is a list less; the links remain


async def list_llms_pages(start: str, get: FetchFile, reader: SiteReader) -> tuple[str, ...]:
    """The pages that an llms.txt links to."""
    place = f"{origin_of(start)}/llms.txt"
    try:
        fetched = await get(place, MAX_SITEMAP_BYTES)
        return await reader.parse_llms(fetched.body, place) if fetched.status == 200 else ()
    except KnowledgeError:
        return ()


# -- in a child ---------------------------------------------------------------------------------


def is_sitemap_index(text: str) -> bool:
    """Whether a sitemap lists other sitemaps."""
    return SITEMAP_INDEX_TAG.search(text[:2000]) is not None


def iter_locations(text: str) -> Iterator[str]:
    """The addresses of a sitemap. No XML parser is needed for this, and so none can be tricked."""
    if "<" not in text[:1000]:
        yield from (line.strip() for line in text.splitlines() if line.startswith("http"))
        return
    for found in LOC_TAG.finditer(text):
        yield html.unescape(found[1].strip())


def find_markdown_links(text: str, place: str) -> list[str]:
    """The pages that an llms.txt links to; none where it is a web page, as sites without one answer."""
    if text.lstrip()[:1] == "<":
        return []
    links = (resolve_link(place, found[1]) for found in MARKDOWN_LINK.finditer(text))
    return [url for url in dict.fromkeys(links) if url][:MAX_URLS]
