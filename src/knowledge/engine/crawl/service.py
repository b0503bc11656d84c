"""Where crawls are handed in. The crawler itself is only loaded when there is something to crawl."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from knowledge.store.jobs.jobs import JobStore

if TYPE_CHECKING:  # brings the HTTP client, which a start does not need
    from knowledge.engine.crawl.scheduler import CrawlScheduler


class CrawlService:
    def __init__(self, jobs: JobStore, open_crawler: Callable[[], CrawlScheduler]) -> None:
        self._jobs, self._open_crawler = jobs, open_crawler
        self._lock = threading.Lock()
        self._scheduler: CrawlScheduler | None = None
        self._closed = False

    def start(self) -> None:
        """Go on with what an earlier process left."""
        if self._jobs.has_queued_crawl():
            self.wake()

    def wake(self) -> None:
        """A crawl has been queued."""
        with self._lock:
            if self._closed:
                return
            if self._scheduler is None:
                self._scheduler = self._open_crawler()
                self._scheduler.start()
            self._scheduler.wake()

    def close(self) -> None:
        """Stop at once; crawls that are under way are queued again, with all they know."""
        with self._lock:
            self._closed = True
        if self._scheduler is not None:
            self._scheduler.close()
