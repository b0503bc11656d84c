"""Routes for crawls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import Id, ResponseModel, errors
from knowledge.wire import CrawlBody, CrawlPagesShape, CrawlShape, CrawlsShape, Listing
from knowledge.wire.jobs import CrawlPageListing

router = APIRouter(tags=["crawls"], prefix="/crawls")


@router.post("", status_code=202, responses=errors(404, 415))
async def crawl(body: CrawlBody, engine: CallerEngine) -> ResponseModel[CrawlShape]:
    """Start to crawl a web site; the response has the job that does it."""
    job = await engine.crawl(body.to_new())
    return CrawlShape.from_crawl(await engine.crawl_report(job.id))


@router.get("")
async def crawls(engine: CallerEngine, wanted: Annotated[Listing, Query()]) -> ResponseModel[CrawlsShape]:
    """List crawls, newest first, without their pages."""
    return CrawlsShape.from_page(await engine.crawls(wanted.page, wanted.per_page))


@router.get("/{id}", responses=errors(404))
async def report(id: Id, engine: CallerEngine) -> ResponseModel[CrawlShape]:
    """Get a crawl with the outcome of each URL."""
    return CrawlShape.from_crawl(await engine.crawl_report(id))


@router.get("/{id}/pages", responses=errors(404))
async def pages(
    id: Id, engine: CallerEngine, wanted: Annotated[CrawlPageListing, Query()]
) -> ResponseModel[CrawlPagesShape]:
    """List the addresses of a crawl that are done, with the outcome of each."""
    return CrawlPagesShape.from_page(await engine.crawl_pages(id, wanted.outcome, wanted.page, wanted.per_page))


@router.post("/{id}/cancel", responses=errors(404, 409))
async def cancel(id: Id, engine: CallerEngine) -> ResponseModel[CrawlShape]:
    """Cancel a crawl; pages that were added are kept."""
    found = await engine.crawl_report(id)
    await engine.cancel(found.job.id)
    return CrawlShape.from_crawl(await engine.crawl_report(found.job.id))
