"""Crawls: start one, watch it, read its report, stop it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.openapi import Id, answers, takes
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.wire import CrawlBody, Listing, dump_crawl, dump_crawls, load_ref
from knowledge.wire.shapes import CrawlShape, CrawlsShape

router = APIRouter(route_class=Route, tags=["crawls"])


@router.post(
    "/crawls",
    status_code=202,
    openapi_extra=takes(CrawlBody),
    responses=answers(CrawlShape, 403, 404, 415, status=202),
)
async def crawl(request: Request) -> Response:
    """Crawl a web site; the job goes on after the answer."""
    body = await read_json(request, CrawlBody)
    engine = engine_of(request)
    job = await engine.crawl(body.to_new())
    return answer(dump_crawl(await engine.crawl_report(job.id)), 202)


@router.get("/crawls", responses=answers(CrawlsShape))
async def crawls(request: Request, wanted: Annotated[Listing, Query()]) -> Response:
    """List the crawls, newest first, without their pages."""
    return answer(dump_crawls(await engine_of(request).crawls(wanted.page, wanted.per_page)))


@router.get("/crawls/{id}", responses=answers(CrawlShape, 404))
async def report(request: Request, id: Id) -> Response:
    """Show one crawl with what became of each address."""
    return answer(dump_crawl(await engine_of(request).crawl_report(load_ref(id))))


@router.post("/crawls/{id}/cancel", responses=answers(CrawlShape, 404, 409))
async def cancel(request: Request, id: Id) -> Response:
    """Stop a crawl; the pages that are in already stay."""
    engine = engine_of(request)
    found = await engine.crawl_report(load_ref(id))
    await engine.cancel(found.job.id)
    return answer(dump_crawl(await engine.crawl_report(found.job.id)))
