"""The addresses of a crawl, page by page, and the events of a crawl."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.engine.remote.http import open_http_client
from knowledge.errors import JobNotFound
from knowledge.model import Caller, NewNote
from knowledge.model.crawls import NewCrawl, PageOutcome
from knowledge.model.events import CrawlProgress, EventKind
from tests.support.command_line import serve_engine
from tests.support.watching import watching
from tests.support.web_site import WebSite


@pytest.fixture(params=["local", "remote"])
async def engine(request: pytest.FixtureRequest, local: LocalEngine, settings: Settings) -> AsyncIterator[Engine]:
    """The engine in this process, and over a real HTTP connection, because others do not stream."""
    if request.param == "local":
        yield local.as_caller(Caller())
        return
    with serve_engine(local.as_caller(Caller()), settings) as url:
        async with open_http_client(url) as http:
            yield RemoteEngine(http)


async def test_the_addresses_of_a_crawl_are_listed_by_outcome_and_told(engine: Engine, site: WebSite) -> None:
    links = [f"/page{number}" for number in range(3)]
    site.put_page("/", *links, "/missing")
    for link in links:
        site.put_page(link)
    async with watching(engine) as reader:
        await reader.read()
        job = await engine.crawl(NewCrawl(url=f"{site.url}/", recursive=True, max_pages=20))
        ended = await reader.read_until(
            lambda event: isinstance(event.data, CrawlProgress) and event.data.status.has_ended
        )
        assert ended.kind is EventKind.CRAWL
    every = await engine.crawl_pages(job.id, per_page=2)
    assert (len(every.items), every.total) == (2, 5)
    failed = await engine.crawl_pages(job.id, PageOutcome.FAILED)
    assert [page.http_status for page in failed.items] == [404] and failed.total == 1
    other = await engine.add(NewNote(text="no crawl"))
    with pytest.raises(JobNotFound):
        await engine.crawl_pages(other.id)
