"""Crawls: start one, watch it, read its report, stop it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import Id, ResponseModel, errors
from knowledge.wire import CrawlBody, CrawlShape, CrawlsShape, Listing

router = APIRouter(tags=["crawls"], prefix="/crawls")


@router.post("", status_code=202, responses=errors(404, 415))
async def crawl(body: CrawlBody, engine: CallerEngine) -> ResponseModel[CrawlShape]:
    """Crawl a web site; the job goes on after the answer."""
    job = await engine.crawl(body.to_new())
    return CrawlShape.from_crawl(await engine.crawl_report(job.id))


@router.get("")
async def crawls(engine: CallerEngine, wanted: Annotated[Listing, Query()]) -> ResponseModel[CrawlsShape]:
    """List the crawls, newest first, without their pages."""
    return CrawlsShape.from_page(await engine.crawls(wanted.page, wanted.per_page))


@router.get("/{id}", responses=errors(404))
async def report(id: Id, engine: CallerEngine) -> ResponseModel[CrawlShape]:
    """Show one crawl with what became of each address."""
    return CrawlShape.from_crawl(await engine.crawl_report(id))


@router.post("/{id}/cancel", responses=errors(404, 409))
async def cancel(id: Id, engine: CallerEngine) -> ResponseModel[CrawlShape]:
    """Stop a crawl; the pages that are in already stay."""
    found = await engine.crawl_report(id)
    await engine.cancel(found.job.id)
    return CrawlShape.from_crawl(await engine.crawl_report(found.job.id))
