"""A site to crawl, and an engine with short delays that may connect to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge import app
from knowledge.config import Settings
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.crawl.politeness import RetryPolicy
from knowledge.engine.fetch.client import FetchTimeouts
from knowledge.engine.local import LocalEngine
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.web_site import WebSite, serve_site


@pytest.fixture
def site() -> Iterator[WebSite]:
    with serve_site() as made:
        yield made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data", workers=2, crawl_delay=0, crawl_allow="127.0.0.1, localhost")


@pytest.fixture
def crawl(settings: Settings) -> CrawlOptions:
    """Crawl options with short timeouts; tests that need others override this fixture."""
    quick = RetryPolicy(attempts=2, first_wait_seconds=0.01, max_wait_seconds=0.5)
    return replace(
        app.build_crawl_options(settings), retry_policy=quick, timeouts=FetchTimeouts(connect=5, read=5, total=10)
    )


@pytest.fixture
def local(settings: Settings, parsers: SharedParsers, crawl: CrawlOptions) -> Iterator[LocalEngine]:
    engine = make_test_engine(settings, parsers=parsers, crawl=crawl)
    engine.start()
    yield engine
    engine.close()
