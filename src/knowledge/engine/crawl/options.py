"""What a crawl is told from outside."""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge.engine.crawl.politeness import Retrying
from knowledge.engine.fetch.addresses import Allowed
from knowledge.engine.fetch.client import Patience


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    delay: float = 1.0
    """Seconds between two requests to one host, at least."""
    allowed: Allowed = field(default_factory=Allowed)
    max_page_bytes: int = 20 << 20
    max_bytes: int = 500 << 20
    browser: str = ""
    """A Chromium to render pages with: a path, auto, or empty for none."""
    patience: Patience = field(default_factory=Patience)
    retrying: Retrying = field(default_factory=Retrying)
    render_seconds: float = 30.0
