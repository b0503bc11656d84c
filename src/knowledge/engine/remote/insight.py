"""The AgentsApi and the InsightApi over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from knowledge.engine.remote.http import EngineClient
from knowledge.model import Json
from knowledge.model.agents import Agent, AgentSighting, NewRefusal, RefusedAttempt
from knowledge.model.insight import HistoryPoint, QueryCounts, QueryLog, RatedPassage
from knowledge.wire import dump
from knowledge.wire.insight import (
    AgentsShape,
    ForgottenShape,
    HistoryShape,
    QueryLogShape,
    RatingsShape,
    dump_refusals,
)


class RemoteAgents:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def list_seen(self) -> list[Agent]:
        return [*(await self._read()).agents]

    async def list_refused(self, address: str) -> list[RefusedAttempt]:  # noqa: ARG002
        """Return the attempts that the engine's server knows; it compares with the address of this process."""
        return [*(await self._read()).refused]

    async def _read(self) -> AgentsShape:
        return await self._client.call(AgentsShape, "GET", "/agents", idempotent=True)

    async def record(self, seen: AgentSighting) -> None:
        await self._client.call(object, "POST", "/agents", json=dump(seen))

    async def record_refusals(self, refused: Sequence[NewRefusal]) -> None:
        await self._client.call(object, "POST", "/admin/agents/refused", json=dump_refusals(refused))


class RemoteInsight:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def queries(
        self, since: datetime | None = None, unanswered: bool = False, page: int = 1, per_page: int = 50
    ) -> QueryLog:
        params = {"page": str(page), "per_page": str(per_page), "unanswered": str(unanswered).lower()}
        params |= {} if since is None else {"since": since.isoformat()}
        return (await self._client.call(QueryLogShape, "GET", "/queries", params=params, idempotent=True)).to_log()

    async def forget_queries(self) -> int:
        return (await self._client.call(ForgottenShape, "DELETE", "/queries", idempotent=True)).forgotten

    async def rate(self, query: str, chunk: UUID, good: bool | None) -> None:
        body: Json = {"query": query, "chunk_uid": str(chunk), "good": good}
        await self._client.call(object, "POST", "/feedback", json=body, idempotent=True)

    async def ratings(self) -> list[RatedPassage]:
        return [*(await self._client.call(RatingsShape, "GET", "/feedback", idempotent=True)).ratings]

    async def history(self, hours: int = 24) -> list[HistoryPoint]:
        return await self._read_history("/status/history", hours)

    async def count_queries(self) -> QueryCounts:
        return await self._client.call(QueryCounts, "GET", "/admin/queries", idempotent=True)

    async def server_history(self, hours: int = 24) -> list[HistoryPoint]:
        return await self._read_history("/admin/status/history", hours)

    async def _read_history(self, path: str, hours: int) -> list[HistoryPoint]:
        found = await self._client.call(HistoryShape, "GET", path, params={"hours": str(hours)}, idempotent=True)
        return [*found.points]
