"""What the head of a page says about it: title, author, language, address and dates."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from knowledge.extract.base import Facts
from knowledge.model import Json

TITLES = ('meta[property="og:title"]', 'meta[name="citation_title"]', 'meta[name="DC.title"]')
AUTHORS = ('meta[name="author"]', 'meta[property="article:author"]', 'meta[name="DC.creator"]')
CREATED = (
    'meta[property="article:published_time"]',
    'meta[name="date"]',
    'meta[name="citation_publication_date"]',
    'meta[name="DC.date"]',
)
MODIFIED = ('meta[property="article:modified_time"]', 'meta[property="og:updated_time"]', 'meta[name="last-modified"]')
DESCRIPTION = ('meta[name="description"]', 'meta[property="og:description"]')
KEYWORDS = ('meta[name="keywords"]',)


def html_facts(tree: LexborHTMLParser, doc_type: str) -> Facts:
    metadata: Json = {
        "url": _attribute(tree, 'link[rel="canonical"]', "href") or _meta(tree, ('meta[property="og:url"]',)),
        "description": _meta(tree, DESCRIPTION),
        "keywords": _meta(tree, KEYWORDS),
        "created": _meta(tree, CREATED) or _attribute(tree, "time[datetime]", "datetime"),
        "modified": _meta(tree, MODIFIED),
    }
    return Facts(
        doc_type,
        title=_words(tree, "title") or _meta(tree, TITLES) or _words(tree, "h1"),
        author=_meta(tree, AUTHORS),
        language=_attribute(tree, "html", "lang") or _attribute(tree, "html", "xml:lang"),
        metadata={key: value for key, value in metadata.items() if value},
    )


def _words(tree: LexborHTMLParser, selector: str) -> str | None:
    node = tree.css_first(selector)
    return " ".join(node.text().split()) or None if node is not None else None


def _meta(tree: LexborHTMLParser, selectors: tuple[str, ...]) -> str | None:
    found = (_attribute(tree, selector, "content") for selector in selectors)
    return next((value for value in found if value), None)


def _attribute(tree: LexborHTMLParser, selector: str, name: str) -> str | None:
    node = tree.css_first(selector)
    value = node.attributes.get(name) if node is not None else None
    return value.strip() or None if value else None
