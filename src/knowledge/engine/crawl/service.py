"""Where crawls are handed in. The crawler itself is only loaded when there is something to crawl."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from knowledge.engine.crawl.options import CrawlOptions

if TYPE_CHECKING:
    from knowledge.engine.crawl.scheduler import Crawler
    from knowledge.engine.runtime import Parts


class CrawlOffice:
    def __init__(self, parts: Parts, options: CrawlOptions) -> None:
        self._parts, self._options = parts, options
        self._lock = threading.Lock()
        self._crawler: Crawler | None = None
        self._closed = False

    def start(self) -> None:
        """Go on with what an earlier process left."""
        if self._parts.jobs.any_crawl_queued():
            self.wake()

    def wake(self) -> None:
        """A crawl has been queued."""
        with self._lock:
            if self._closed:
                return
            if self._crawler is None:
                from knowledge.engine.crawl.scheduler import Crawler

                self._crawler = Crawler(self._parts, self._options)
                self._crawler.start()
            self._crawler.wake()

    def close(self) -> None:
        """Stop at once; crawls that are under way are queued again, with all they know."""
        with self._lock:
            self._closed = True
        if self._crawler is not None:
            self._crawler.close()
