"""What a crawl needs to see of a page before anybody parses it: its links, its wishes, and whether it has any text.

A child process does this: pages come from anywhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.engine.crawl.urls import canonicalize_url, resolve_link

MAX_LINKS = 2000
MAX_SCANNED_CHARS = 4 << 20
"""Beyond so many characters no links are looked for."""
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
MIN_VISIBLE_LETTERS = 40
"""A page with fewer, and with a script, is a page that a script would write."""


@dataclass(frozen=True, slots=True)
class PageScan:
    """What a page says to crawlers."""

    links: tuple[str, ...]
    """Addresses, each once, in the order of the page."""
    canonical: str | None
    """The address that the page says it should be known by."""
    may_index: bool
    may_follow: bool
    needs_script: bool
    """Without a script there is nothing to read."""


def scan_page(text: str, url: str, robots_header: str = "") -> PageScan:
    """See a page as it lies at an address."""
    base, named, wishes, links, scripts = url, None, robots_header.lower(), {}, False
    for tag, attributes in iter_tags(text[:MAX_SCANNED_CHARS]):
        if tag == "base" and base == url:
            base = resolve_link(url, attributes.get("href", "")) or url
        elif tag == "link" and "canonical" in attributes.get("rel", "").lower().split() and named is None:
            named = resolve_link(base, attributes.get("href", "")) if attributes.get("href") else None
        elif tag == "meta":
            wishes += _read_robots_directives(attributes) + ","
            links.update(dict.fromkeys(_find_refresh_target(attributes, base)))
        elif tag == "script":
            scripts = True
        elif tag in ("a", "area", "iframe", "frame") and len(links) < MAX_LINKS:
            target = attributes.get("src" if "frame" in tag else "href")
            if target is not None and (found := resolve_link(base, target)) is not None:
                links[found] = None
    said = {wish.strip() for wish in wishes.split(",")}
    links.pop(url, None)
    return PageScan(
        links=tuple(links),
        canonical=named,
        may_index=not said & {"noindex", "none"},
        may_follow=not said & {"nofollow", "none"},
        needs_script=scripts and not has_text(text),
    )


def iter_tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The tags that matter, with their attributes. One that never ends ends the page, as it does in a browser."""
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
    """Whether a reader without scripts would see more than a few words."""
    seen = 0
    for piece in INVISIBLE_MARKUP.split(text[:MAX_SCANNED_CHARS])[::2]:
        seen += sum(map(str.isalnum, piece or ""))
        if seen >= MIN_VISIBLE_LETTERS:
            return True
    return False


def choose_canonical_url(scan: PageScan, url: str) -> str:
    """The page's one name: its own word for it where that lies on the same host, else the address it came from."""
    name, own = canonicalize_url(url), canonicalize_url(scan.canonical or url)
    return own if own.split("/")[2] == name.split("/")[2] else name


def _read_robots_directives(attributes: dict[str, str]) -> str:
    named = attributes.get("name", "").lower() in ("robots", "knowledgeserver")
    return attributes.get("content", "").lower() if named else ""


def _find_refresh_target(attributes: dict[str, str], base: str) -> list[str]:
    """A page that only sends its readers on."""
    if attributes.get("http-equiv", "").lower() != "refresh":
        return []
    found = re.search(r"(?i)url\s*=\s*['\"]?([^'\"]+)", attributes.get("content", ""))
    url = resolve_link(base, found[1]) if found else None
    return [url] if url else []
