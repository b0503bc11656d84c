"""Starts the crawl scheduler when the first crawl is queued."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from knowledge.store.jobs.jobs import JobStore

if TYPE_CHECKING:  # importing the HTTP client would slow down every start
    from knowledge.engine.crawl.scheduler import CrawlScheduler


class CrawlService:
    def __init__(self, jobs: JobStore, open_crawler: Callable[[], CrawlScheduler]) -> None:
        self._jobs, self._open_crawler = jobs, open_crawler
        self._lock = threading.Lock()
        self._scheduler: CrawlScheduler | None = None
        self._closed = False

    def start(self) -> None:
        """Resume crawls that an earlier process left queued."""
        if self._jobs.has_queued_crawl():
            self.wake()

    def wake(self) -> None:
        """Start the scheduler if needed, and make it claim queued crawls."""
        with self._lock:
            if self._closed:
                return
            if self._scheduler is None:
                self._scheduler = self._open_crawler()
                self._scheduler.start()
            self._scheduler.wake()

    def close(self) -> None:
        """Stop at once; running crawls are queued again and keep their frontier."""
        with self._lock:
            self._closed = True
        if self._scheduler is not None:
            self._scheduler.close()
