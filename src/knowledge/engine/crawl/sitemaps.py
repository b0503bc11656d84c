"""Finds the pages of a site in its sitemaps (plain, gzip, sitemap indexes) and its llms.txt."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

from knowledge.engine.crawl.urls import MAX_URLS, origin_of, resolve_link
from knowledge.errors import KnowledgeError

if TYPE_CHECKING:  # the parsing half runs in a child process, which must not import the HTTP client
    from knowledge.engine.crawl.robots import FetchFile
    from knowledge.engine.crawl.site_reader import SitemapFile, SiteReader

MAX_SITEMAP_BYTES = 10 << 20
MAX_UNPACKED_BYTES = 50 << 20
MAX_SITEMAP_FILES = 20
LOC_TAG = re.compile(r"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?([^<\]]{1,2000})")
SITEMAP_INDEX_TAG = re.compile(r"<(?:\w+:)?sitemapindex[\s>]")
MARKDOWN_LINK = re.compile(r"\[[^\[\]\n]{0,500}\]\(\s*<?([^\s()<>]{1,2000})")


async def list_sitemap_pages(start: str, sitemaps: Sequence[str], get: FetchFile, reader: SiteReader) -> list[str]:
    """Return the page URLs of these sitemaps, or of /sitemap.xml if there are none."""
    found: dict[str, None] = {}
    async for url in _walk_sitemaps(sitemaps or [f"{origin_of(start)}/sitemap.xml"], get, reader):
        found[url] = None
        if len(found) >= MAX_URLS:
            break
    return list(found)


async def _walk_sitemaps(sitemaps: Sequence[str], get: FetchFile, reader: SiteReader) -> AsyncIterator[str]:
    """Yield the page URLs, following sitemap indexes up to MAX_SITEMAP_FILES files."""
    waiting, seen = list(sitemaps), set(sitemaps)
    while waiting and len(seen) <= MAX_SITEMAP_FILES + len(sitemaps):
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


async def _read_sitemap(sitemap: str, get: FetchFile, reader: SiteReader) -> SitemapFile | None:
    url = resolve_link(sitemap, sitemap)
    if url is None:
        return None
    try:
        fetched = await get(url, MAX_SITEMAP_BYTES)
        target = fetched.location and resolve_link(url, fetched.location)
        if target:
            fetched = await get(target, MAX_SITEMAP_BYTES)
        return await reader.parse_sitemap(fetched.body, sitemap) if fetched.status == 200 else None
    except KnowledgeError:
        return None  # sitemaps are optional: the crawl still follows links


async def list_llms_pages(start: str, get: FetchFile, reader: SiteReader) -> tuple[str, ...]:
    """Return the URLs that the site's llms.txt links to."""
    url = f"{origin_of(start)}/llms.txt"
    try:
        fetched = await get(url, MAX_SITEMAP_BYTES)
        return await reader.parse_llms(fetched.body, url) if fetched.status == 200 else ()
    except KnowledgeError:
        return ()


# -- in a child ---------------------------------------------------------------------------------


def is_sitemap_index(text: str) -> bool:
    """Return whether a sitemap lists other sitemaps."""
    return SITEMAP_INDEX_TAG.search(text[:2000]) is not None


def iter_locations(text: str) -> Iterator[str]:
    """Yield the URLs of a sitemap; uses a regular expression, which rules out XML entity attacks."""
    if "<" not in text[:1000]:
        yield from (line.strip() for line in text.splitlines() if line.startswith("http"))
        return
    for found in LOC_TAG.finditer(text):
        yield html.unescape(found[1].strip())


def find_markdown_links(text: str, base_url: str) -> list[str]:
    """Return the URLs that an llms.txt links to."""
    if text.lstrip()[:1] == "<":  # many sites without an llms.txt answer with an HTML page
        return []
    links = (resolve_link(base_url, found[1]) for found in MARKDOWN_LINK.finditer(text))
    return [url for url in dict.fromkeys(links) if url][:MAX_URLS]
