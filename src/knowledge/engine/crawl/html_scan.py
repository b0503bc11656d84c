"""What a crawl needs to see of a page before anybody parses it: its links, its wishes, and whether it has any text.

A child process does this: pages come from anywhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.engine.crawl.addresses import absolute, canonical

MOST_LINKS = 2000
LOOK = 4 << 20
"""Beyond so many characters no links are looked for."""
TAG = re.compile(
    r"<(?:(!--)|(a|area|base|link|meta|script|style|iframe|frame|textarea|title|noscript)(?=[\s/>]))", re.I
)
ATTRIBUTE = re.compile(r"[\s/]*+([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+)|))?+")
CLOSED = re.compile(r"[\s/]*+>")
RAW = frozenset({"script", "style", "textarea", "title"})
SILENT = re.compile(
    r"(?is)<(script|style|noscript|template|head|svg|title)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*+>?"
)
FEWEST_LETTERS = 40
"""A page with fewer, and with a script, is a page that a script would write."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a page says to crawlers."""

    links: tuple[str, ...]
    """Addresses, each once, in the order of the page."""
    canonical: str | None
    """The address that the page says it should be known by."""
    index: bool
    follow: bool
    scripted: bool
    """Without a script there is nothing to read."""


def look(text: str, url: str, robots_header: str = "") -> Sight:
    """See a page as it lies at an address."""
    base, named, wishes, links, scripts = url, None, robots_header.lower(), {}, False
    for tag, attributes in tags(text[:LOOK]):
        if tag == "base" and base == url:
            base = absolute(url, attributes.get("href", "")) or url
        elif tag == "link" and "canonical" in attributes.get("rel", "").lower().split() and named is None:
            named = absolute(base, attributes.get("href", "")) if attributes.get("href") else None
        elif tag == "meta":
            wishes += _robots(attributes) + ","
            links.update(dict.fromkeys(_refresh(attributes, base)))
        elif tag == "script":
            scripts = True
        elif tag in ("a", "area", "iframe", "frame") and len(links) < MOST_LINKS:
            target = attributes.get("src" if "frame" in tag else "href")
            if target is not None and (found := absolute(base, target)) is not None:
                links[found] = None
    said = {wish.strip() for wish in wishes.split(",")}
    links.pop(url, None)
    return Sight(
        links=tuple(links),
        canonical=named,
        index=not said & {"noindex", "none"},
        follow=not said & {"nofollow", "none"},
        scripted=scripts and not has_text(text),
    )


def tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The tags that matter, with their attributes. One that never ends ends the page, as it does in a browser."""
    place = 0
    while (found := TAG.search(text, place)) is not None:
        if found[1]:
            place = text.find("-->", found.end()) + 3
            if place < 3:
                return
            continue
        name, place = found[2].lower(), found.end()
        attributes: dict[str, str] = {}
        while (pair := ATTRIBUTE.match(text, place)) is not None:
            value = pair[2] or pair[3] or pair[4] or ""
            attributes.setdefault(pair[1].lower(), html.unescape(value) if "&" in value else value)
            place = pair.end()
        closed = CLOSED.match(text, place)
        if closed is None:
            return
        place = closed.end()
        yield name, attributes
        if name in RAW:
            place = _end_of(name, text, place)


def _end_of(name: str, text: str, place: int) -> int:
    found = re.compile(f"</{name}", re.I).search(text, place)
    return found.start() if found else len(text)


def has_text(text: str) -> bool:
    """Whether a reader without scripts would see more than a few words."""
    seen = 0
    for piece in SILENT.split(text[:LOOK])[::2]:
        seen += sum(map(str.isalnum, piece or ""))
        if seen >= FEWEST_LETTERS:
            return True
    return False


def known_as(sight: Sight, url: str) -> str:
    """The page's one name: its own word for it where that lies on the same host, else the address it came from."""
    name, own = canonical(url), canonical(sight.canonical or url)
    return own if own.split("/")[2] == name.split("/")[2] else name


def _robots(attributes: dict[str, str]) -> str:
    named = attributes.get("name", "").lower() in ("robots", "knowledgeserver")
    return attributes.get("content", "").lower() if named else ""


def _refresh(attributes: dict[str, str], base: str) -> list[str]:
    """A page that only sends its readers on."""
    if attributes.get("http-equiv", "").lower() != "refresh":
        return []
    found = re.search(r"(?i)url\s*=\s*['\"]?([^'\"]+)", attributes.get("content", ""))
    url = absolute(base, found[1]) if found else None
    return [url] if url else []
