"""Settings of the crawler."""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge.engine.crawl.politeness import RetryPolicy
from knowledge.engine.fetch.client import FetchTimeouts
from knowledge.engine.fetch.ssrf import AllowedHosts


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    delay: float = 1.0
    """Minimum seconds between two requests to one host."""
    allowed: AllowedHosts = field(default_factory=AllowedHosts)
    max_page_bytes: int = 20 << 20
    max_bytes: int = 500 << 20
    browser: str = ""
    """Path of the Chromium that renders JavaScript pages; `auto` searches for one, empty means none."""
    timeouts: FetchTimeouts = field(default_factory=FetchTimeouts)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    render_seconds: float = 30.0
