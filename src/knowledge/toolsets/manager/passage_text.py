"""What was found as text that a model can read: each passage with where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge.model import Document, Hit

BETWEEN = "\n\n---\n\n"


def context(hits: Iterable[Hit]) -> str:
    """The passages, best first, each followed by its source."""
    ordered = sorted(hits, key=lambda hit: -hit.score)
    return BETWEEN.join(f"{hit.text.strip()}\n\n[Source: {source(hit)}]" for hit in ordered)


def source(hit: Hit) -> str:
    """Document, page, headings, collection and relevance, as far as there are any."""
    chunk, document = hit.chunk, hit.document
    parts = [_named(document)]
    if chunk.page is not None:
        parts.append(f"page {chunk.page}")
    if chunk.section:
        parts.append(" > ".join(one_line(heading) for heading in chunk.section))
    parts.append(f"collection {document.collection}")
    return f"{', '.join(parts)}; relevance {hit.score:.2f}"


def _named(document: Document) -> str:
    """The title, and the file or address behind it where that says more."""
    title, behind = one_line(document.title), one_line(document.filename or document.url or "")
    return title if not behind or behind == title else f"{title} ({behind})"


def file_name(document: Document) -> str:
    return one_line(document.filename or document.title)


def one_line(text: str) -> str:
    return " ".join(text.split())
