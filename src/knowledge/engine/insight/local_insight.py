"""The InsightApi and the AgentsApi of LocalEngine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from knowledge.engine.insight.history import MAX_HOURS, choose_step, join_hours
from knowledge.engine.insight.recorder import SearchRecorder
from knowledge.engine.threads import EngineThreads
from knowledge.errors import EmptyQuery, InvalidParameter
from knowledge.model import LOCAL_OWNER, Scope
from knowledge.model.agents import Agent, AgentSighting, NewRefusal, RefusedAttempt
from knowledge.model.insight import HistoryPoint, QueryCounts, QueryLog, RatedPassage
from knowledge.store.database import Database
from knowledge.store.insight.agents import AgentStore
from knowledge.store.insight.measurements import MeasurementStore, current_hour
from knowledge.store.insight.queries import QueryStore
from knowledge.store.row_mapping import make_timestamp

MICROSECONDS_PER_DAY = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class InsightParts:
    """The stores of agents, questions and measurements, and what writes them."""

    agents: AgentStore
    queries: QueryStore
    measurements: MeasurementStore
    recorder: SearchRecorder
    logs_queries: bool
    kept_days: int
    tell_agents: Callable[[], None]
    """Tells everybody who watches, on this and on other servers, that an agent was seen."""

    def sweep(self) -> None:
        """Delete what is older than its retention."""
        self.agents.forget_old()
        self.queries.forget_before(make_timestamp() - self.kept_days * MICROSECONDS_PER_DAY)
        self.queries.forget_ratings_of_removed()
        self.measurements.forget_old()


def open_insight(
    database: Database, logs_queries: bool, kept_days: int, tell_agents: Callable[[], None]
) -> InsightParts:
    """Open the stores and make the recorder, without starting it."""
    queries, measurements = QueryStore(database), MeasurementStore(database)
    recorder = SearchRecorder(queries, measurements, logs_queries=logs_queries)
    return InsightParts(AgentStore(database), queries, measurements, recorder, logs_queries, kept_days, tell_agents)


class LocalAgents:
    def __init__(self, threads: EngineThreads, parts: InsightParts, owner: int) -> None:
        self._run, self._store, self._tell = threads.run, parts.agents, parts.tell_agents
        self._owner = owner

    async def list_seen(self) -> list[Agent]:
        return await self._run(lambda: self._store.list_of_owner(self._owner))

    async def list_refused(self, address: str) -> list[RefusedAttempt]:
        if self._owner == LOCAL_OWNER:
            return await self._run(lambda: self._store.list_refused(None))
        found = await self._run(lambda: self._store.list_refused(address)) if address else []
        return [replace(each, client="", address="", path="", detail="") for each in found]

    async def record(self, seen: AgentSighting) -> None:
        await self._run(lambda: self._store.record(self._owner, seen))
        self._tell()

    async def record_refusals(self, refused: Sequence[NewRefusal]) -> None:
        await self._run(lambda: self._store.record_refusals(refused))
        self._tell()


class LocalInsight:
    def __init__(self, threads: EngineThreads, parts: InsightParts, scope: Scope) -> None:
        self._run, self._parts, self._scope = threads.run, parts, scope

    async def queries(
        self, since: datetime | None = None, unanswered: bool = False, page: int = 1, per_page: int = 50
    ) -> QueryLog:
        return await self._run(lambda: self._read_queries(since, unanswered, page, per_page))

    def _read_queries(self, since: datetime | None, unanswered: bool, page: int, per_page: int) -> QueryLog:
        parts, owner = self._parts, self._scope.owner
        parts.recorder.flush()
        first = 0 if since is None else make_timestamp(since)
        found, total = parts.queries.list_page(owner, since=first, unanswered=unanswered, page=page, per_page=per_page)
        return QueryLog(parts.logs_queries, parts.kept_days, found, total, parts.queries.count_unanswered(owner))

    async def forget_queries(self) -> int:
        return await self._run(lambda: self._forget_queries())

    def _forget_queries(self) -> int:
        self._parts.recorder.flush()
        return self._parts.queries.forget(self._scope.owner)

    async def rate(self, query: str, chunk: UUID, good: bool | None) -> None:
        if not query.strip():
            raise EmptyQuery("The question is empty")
        await self._run(lambda: self._parts.queries.rate(self._scope, query.strip(), chunk, good))

    async def ratings(self) -> list[RatedPassage]:
        return await self._run(lambda: self._parts.queries.list_ratings(self._scope))

    async def history(self, hours: int = 24) -> list[HistoryPoint]:
        return await self._run(lambda: self._read_history(self._scope.owner, hours))

    async def count_queries(self) -> QueryCounts:
        return await self._run(self._parts.queries.count_all)

    async def server_history(self, hours: int = 24) -> list[HistoryPoint]:
        return await self._run(lambda: self._read_history(None, hours))

    def _read_history(self, owner: int | None, hours: int) -> list[HistoryPoint]:
        if not 1 <= hours <= MAX_HOURS:
            raise InvalidParameter(f"'hours' is {hours}; it must be between 1 and {MAX_HOURS}", parameter="hours")
        parts, last = self._parts, current_hour()
        parts.recorder.flush()
        parts.recorder.count()
        since = last - hours - choose_step(hours)
        rows, before = parts.measurements.list_hours(owner, since), parts.measurements.find_counts_before(owner, since)
        return join_hours(rows, before, last_hour=last, hours=hours)
