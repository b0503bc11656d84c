"""Scans the HTML of a page for links, the canonical URL, robots directives and visible text.

Runs in a child process, because pages are untrusted input.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.engine.crawl.urls import canonicalize_url, resolve_link

MAX_LINKS = 2000
MAX_SCANNED_CHARS = 4 << 20
TAG_PATTERN = re.compile(
    r"<(?:(!--)|(a|area|base|link|meta|script|style|iframe|frame|textarea|title|noscript)(?=[\s/>]))", re.I
)
ATTRIBUTE_PATTERN = re.compile(
    r"[\s/]*+([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+)|))?+"
)
TAG_END = re.compile(r"[\s/]*+>")
RAW_TEXT_TAGS = frozenset({"script", "style", "textarea", "title"})
INVISIBLE_MARKUP = re.compile(
    r"(?is)<(script|style|noscript|template|head|svg|title)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*+>?"
)
# A page with a script and fewer visible letters than this is rendered by JavaScript.
MIN_VISIBLE_LETTERS = 40


@dataclass(frozen=True, slots=True)
class PageScan:
    """The links and crawler directives of a page."""

    links: tuple[str, ...]
    """Distinct absolute URLs in page order."""
    canonical: str | None
    """The URL in `<link rel="canonical">`."""
    may_index: bool
    may_follow: bool
    needs_script: bool
    """The page has no text without JavaScript."""


def scan_page(text: str, url: str, robots_header: str = "") -> PageScan:
    """Scan the HTML of the page at `url`; `robots_header` is its X-Robots-Tag header."""
    base, canonical, robots, links, has_script = url, None, robots_header.lower(), {}, False
    for tag, attributes in iter_tags(text[:MAX_SCANNED_CHARS]):
        if tag == "base" and base == url:
            base = resolve_link(url, attributes.get("href", "")) or url
        elif tag == "link" and "canonical" in attributes.get("rel", "").lower().split() and canonical is None:
            canonical = resolve_link(base, attributes.get("href", "")) if attributes.get("href") else None
        elif tag == "meta":
            robots += _read_robots_directives(attributes) + ","
            links.update(dict.fromkeys(_find_refresh_target(attributes, base)))
        elif tag == "script":
            has_script = True
        elif tag in ("a", "area", "iframe", "frame") and len(links) < MAX_LINKS:
            target = attributes.get("src" if "frame" in tag else "href")
            if target is not None and (found := resolve_link(base, target)) is not None:
                links[found] = None
    directives = {directive.strip() for directive in robots.split(",")}
    links.pop(url, None)
    return PageScan(
        links=tuple(links),
        canonical=canonical,
        may_index=not directives & {"noindex", "none"},
        may_follow=not directives & {"nofollow", "none"},
        needs_script=has_script and not has_text(text),
    )


def iter_tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the scanned tags with their attributes; like in a browser, an unclosed tag or comment ends the page."""
    place = 0
    while (found := TAG_PATTERN.search(text, place)) is not None:
        if found[1]:
            place = text.find("-->", found.end()) + 3
            if place < 3:
                return
            continue
        name, place = found[2].lower(), found.end()
        attributes: dict[str, str] = {}
        while (pair := ATTRIBUTE_PATTERN.match(text, place)) is not None:
            value = pair[2] or pair[3] or pair[4] or ""
            attributes.setdefault(pair[1].lower(), html.unescape(value) if "&" in value else value)
            place = pair.end()
        closed = TAG_END.match(text, place)
        if closed is None:
            return
        place = closed.end()
        yield name, attributes
        if name in RAW_TEXT_TAGS:
            place = _find_end_tag(name, text, place)


def _find_end_tag(name: str, text: str, place: int) -> int:
    found = re.compile(f"</{name}", re.I).search(text, place)
    return found.start() if found else len(text)


def has_text(text: str) -> bool:
    """Return whether the page shows more than a few words without JavaScript."""
    seen = 0
    for piece in INVISIBLE_MARKUP.split(text[:MAX_SCANNED_CHARS])[::2]:
        seen += sum(map(str.isalnum, piece or ""))
        if seen >= MIN_VISIBLE_LETTERS:
            return True
    return False


def choose_canonical_url(scan: PageScan, url: str) -> str:
    """Return the page's canonical URL if it is on the same host, otherwise the fetched URL, canonicalized."""
    fetched, declared = canonicalize_url(url), canonicalize_url(scan.canonical or url)
    return declared if declared.split("/")[2] == fetched.split("/")[2] else fetched


def _read_robots_directives(attributes: dict[str, str]) -> str:
    named = attributes.get("name", "").lower() in ("robots", "knowledgeserver")
    return attributes.get("content", "").lower() if named else ""


def _find_refresh_target(attributes: dict[str, str], base: str) -> list[str]:
    """Return the target of `<meta http-equiv="refresh">`."""
    if attributes.get("http-equiv", "").lower() != "refresh":
        return []
    found = re.search(r"(?i)url\s*=\s*['\"]?([^'\"]+)", attributes.get("content", ""))
    url = resolve_link(base, found[1]) if found else None
    return [url] if url else []
