"""Validates a new crawl before anything is fetched, and queues it."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from knowledge.engine.crawl.urls import resolve_link, strip_www
from knowledge.engine.fetch.client import check_url
from knowledge.engine.fetch.ssrf import AllowedHosts, check_literal_address
from knowledge.errors import InvalidParameter
from knowledge.model import Job, Scope
from knowledge.model.crawls import MAX_CRAWL_PAGES, NewCrawl
from knowledge.store.crawls.crawls import CrawlStore

MAX_EXCLUDE_PATTERNS, MAX_PATTERN_CHARS = 100, 500


def accept_crawl(crawls: CrawlStore, allowed: AllowedHosts, new: NewCrawl, scope: Scope) -> Job:
    """Validate a crawl and queue it."""
    crawl = normalize_crawl(new)
    host = check_url(crawl.url)
    check_literal_address(host, allowed)
    return crawls.create(crawl, strip_www(host), scope)


def normalize_crawl(new: NewCrawl) -> NewCrawl:
    """Return the crawl with a normalized URL and patterns; raise InvalidParameter if a field is invalid."""
    given = new.url.strip()
    if _has_credentials(given):
        check_url(given)
    url = resolve_link(given, given)
    if url is None:
        raise InvalidParameter(
            "Invalid URL: must start with http:// or https://", hint="Provide a fully qualified URL.", parameter="url"
        )
    if not 1 <= new.max_pages <= MAX_CRAWL_PAGES:
        raise InvalidParameter(
            f"max_pages must be between 1 and {MAX_CRAWL_PAGES}, got {new.max_pages}",
            parameter="max_pages",
            given=new.max_pages,
        )
    patterns = tuple(dict.fromkeys(pattern for pattern in new.exclude if pattern.strip()))
    if len(patterns) > MAX_EXCLUDE_PATTERNS or any(len(pattern) > MAX_PATTERN_CHARS for pattern in patterns):
        raise InvalidParameter(
            f"exclude_patterns takes at most {MAX_EXCLUDE_PATTERNS} patterns of at most {MAX_PATTERN_CHARS} characters",
            parameter="exclude_patterns",
        )
    return replace(new, url=url, exclude=patterns)


def _has_credentials(url: str) -> bool:
    try:
        return url.isprintable() and "@" in urlsplit(url).netloc
    except ValueError:  # for example an unclosed bracket of an IPv6 address
        return False
