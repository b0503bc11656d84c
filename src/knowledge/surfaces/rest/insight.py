"""Routes for insight: the log of questions, ratings of passages, and history."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated

from fastapi import APIRouter, Query

from knowledge.model.insight import QueryCounts
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import ResponseModel, errors
from knowledge.wire import DoneShape
from knowledge.wire.insight import (
    ForgottenShape,
    HistoryQuery,
    HistoryShape,
    QueryListing,
    QueryLogShape,
    RatingBody,
    RatingsShape,
)

router = APIRouter(tags=["insight"])


@router.get("/queries")
async def queries(engine: CallerEngine, wanted: Annotated[QueryListing, Query()]) -> ResponseModel[QueryLogShape]:
    """List the caller's questions, the last asked first. Empty unless KNOWLEDGE_QUERY_LOG is on."""
    since = wanted.since if wanted.since is None or wanted.since.tzinfo else wanted.since.replace(tzinfo=UTC)
    return QueryLogShape.from_log(await engine.insight.queries(since, wanted.unanswered, wanted.page, wanted.per_page))


@router.delete("/queries")
async def forget_queries(engine: CallerEngine) -> ResponseModel[ForgottenShape]:
    """Delete the caller's log of questions."""
    return ForgottenShape(await engine.insight.forget_queries())


@router.post("/feedback", responses=errors(404, 415))
async def rate(body: RatingBody, engine: CallerEngine) -> ResponseModel[DoneShape]:
    """Mark a passage as a right or wrong answer to a question; `knowledge eval --feedback` measures with the marks."""
    await engine.insight.rate(body.query, body.chunk_uid, body.good)
    return {"status": "done"}


@router.get("/feedback")
async def ratings(engine: CallerEngine) -> ResponseModel[RatingsShape]:
    """List the passages that the caller has marked, newest first, as far as they still exist."""
    return RatingsShape(tuple(await engine.insight.ratings()))


@router.get("/status/history")
async def history(engine: CallerEngine, wanted: Annotated[HistoryQuery, Query()]) -> ResponseModel[HistoryShape]:
    """Get the number of documents, unfinished jobs and searches of the caller over time, and how long searches took."""
    return HistoryShape(tuple(await engine.insight.history(wanted.hours)))


@router.get("/admin/queries")
async def count_queries(engine: CallerEngine) -> ResponseModel[QueryCounts]:
    """Count the questions of all accounts, without their texts; admins only."""
    return await engine.insight.count_queries()


@router.get("/admin/status/history")
async def server_history(engine: CallerEngine, wanted: Annotated[HistoryQuery, Query()]) -> ResponseModel[HistoryShape]:
    """Get the history of all accounts together; admins only."""
    return HistoryShape(tuple(await engine.insight.server_history(wanted.hours)))
