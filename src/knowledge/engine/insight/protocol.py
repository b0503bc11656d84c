"""The parts of the Engine protocol about agents and insight; `engine/api.py` has the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from knowledge.model.agents import Agent, AgentSighting, NewRefusal, RefusedAttempt
from knowledge.model.insight import HistoryPoint, QueryCounts, QueryLog, RatedPassage


class AgentsApi(Protocol):
    """Agents that use MCP: which ones have connected, and which attempts were refused."""

    async def list_seen(self) -> list[Agent]:
        """Return the caller's agents of the last seven days, the last seen first."""

    async def list_refused(self, address: str) -> list[RefusedAttempt]:
        """Return the last refused attempts; an account sees those from its own address, without their names."""

    async def record(self, seen: AgentSighting) -> None:
        """Count the calls of an agent of the caller; for the surface that serves MCP."""

    async def record_refusals(self, refused: Sequence[NewRefusal]) -> None:
        """Store refused attempts; for the operator alone."""


class InsightApi(Protocol):
    """What the caller asked, which passages were right, and how much happened."""

    async def queries(
        self, since: datetime | None = None, unanswered: bool = False, page: int = 1, per_page: int = 50
    ) -> QueryLog:
        """Return the caller's questions, the last asked first; only logged with KNOWLEDGE_QUERY_LOG."""

    async def forget_queries(self) -> int:
        """Delete the caller's log of questions and return how many there were."""

    async def rate(self, query: str, chunk: UUID, good: bool | None) -> None:
        """Mark a passage as a right or wrong answer to a question; None withdraws the mark."""

    async def ratings(self) -> list[RatedPassage]:
        """Return the passages that the caller has marked, newest first, as far as they still exist."""

    async def history(self, hours: int = 24) -> list[HistoryPoint]:
        """Return documents, unfinished jobs and searches of the caller over the last hours, oldest first."""

    # -- administration: for the local owner and admins -----------------------------------------

    async def count_queries(self) -> QueryCounts:
        """Count the questions of all accounts, without their texts."""

    async def server_history(self, hours: int = 24) -> list[HistoryPoint]:
        """Return documents, unfinished jobs and searches of all accounts together."""
