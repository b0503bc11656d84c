"""The moment a crawl is accepted: everything that can be refused is refused here, and nothing has been fetched yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from knowledge.engine.crawl.addresses import absolute, bare_host
from knowledge.engine.fetch.addresses import check_literal
from knowledge.engine.fetch.client import check_url
from knowledge.errors import InvalidParameter
from knowledge.model import Job, Scope
from knowledge.model.crawls import MOST_PAGES, NewCrawl

if TYPE_CHECKING:
    from knowledge.engine.runtime import Parts

MOST_PATTERNS, LONGEST_PATTERN = 100, 500


def start(parts: Parts, new: NewCrawl, scope: Scope) -> Job:
    """Queue a crawl."""
    asked = checked(new)
    host = check_url(asked.url)
    check_literal(host, parts.options.crawl.allowed)
    job = parts.crawls.create(asked, bare_host(host), scope)
    parts.crawler.wake()
    return job


def checked(new: NewCrawl) -> NewCrawl:
    """The crawl with its address written out, or the refusal that says what is wrong with it."""
    given = new.url.strip()
    if _names_a_user(given):
        check_url(given)
    url = absolute(given, given)
    if url is None:
        raise InvalidParameter(
            "Invalid URL: must start with http:// or https://", hint="Provide a fully qualified URL.", parameter="url"
        )
    if not 1 <= new.max_pages <= MOST_PAGES:
        raise InvalidParameter(f"max_pages must be from 1 to {MOST_PAGES}", parameter="max_pages", given=new.max_pages)
    patterns = tuple(dict.fromkeys(pattern for pattern in new.exclude if pattern.strip()))
    if len(patterns) > MOST_PATTERNS or any(len(pattern) > LONGEST_PATTERN for pattern in patterns):
        raise InvalidParameter(
            f"At most {MOST_PATTERNS} patterns, each of at most {LONGEST_PATTERN} characters",
            parameter="exclude_patterns",
        )
    return replace(new, url=url, exclude=patterns)


def _names_a_user(url: str) -> bool:
    try:
        return url.isprintable() and "@" in urlsplit(url).netloc
    except ValueError:  # such as a bracket that is not closed
        return False
