"""Helpers that run a crawl and read its report."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.model import CollectionRef, DocumentFilter
from knowledge.model.crawls import Crawl, CrawledPage, NewCrawl

CRAWL_SECONDS = 60.0


async def run_crawl(
    engine: Engine,
    url: str,
    *,
    recursive: bool = True,
    max_pages: int = 20,
    collection: CollectionRef | None = None,
    exclude: tuple[str, ...] = (),
) -> Crawl:
    """Run a crawl to its end and return its report."""
    new = NewCrawl(url=url, recursive=recursive, max_pages=max_pages, collection=collection, exclude=exclude)
    job = await engine.wait((await engine.crawl(new)).id, CRAWL_SECONDS)
    assert job.status.has_ended, job
    return await engine.crawl_report(job.id)


def list_outcomes(crawl: Crawl) -> dict[str, str]:
    """Return the reason of each path, or its outcome if it has no reason."""
    return {get_path(page): str(page.reason or page.outcome) for page in crawl.pages}


def get_path(page: CrawledPage) -> str:
    return "/" + page.url.split("/", 3)[3]


def find_page(crawl: Crawl, path: str) -> CrawledPage:
    return next(page for page in crawl.pages if get_path(page) == path)


async def list_titles(engine: Engine) -> list[str]:
    found = await engine.documents(DocumentFilter(sort="title", descending=False, per_page=100))
    return [document.title for document in found.items]
