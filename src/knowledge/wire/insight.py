"""JSON of agents, refused attempts, the log of questions, ratings and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from knowledge.model import CallerKind, Json
from knowledge.model.agents import (
    Agent,
    AgentSighting,
    AgentTransport,
    NewRefusal,
    RefusalReason,
    RefusedAttempt,
)
from knowledge.model.insight import HistoryPoint, LoggedQuery, QueryLog, RatedPassage
from knowledge.wire.adapters import dump
from knowledge.wire.requests import Body, BodyUuid, Listing

MAX_REFUSALS_PER_REPORT = 100


@dataclass(frozen=True)
class AgentsShape:
    """Agents of the caller, and refused attempts."""

    agents: tuple[Agent, ...]
    refused: tuple[RefusedAttempt, ...]


class SightingBody(Body):
    client: str = Field(max_length=200, description="Name of the client.")
    version: str = Field("", max_length=200)
    transport: Literal["http", "websocket", "stdio"] = "http"
    toolset: str = Field("", max_length=200, description="The toolsets that it sees, separated by commas.")
    caller: Literal["local", "key", "account"] = "local"
    key_prefix: str = Field("", max_length=40, description="Public part of the account's key.")
    calls: int = Field(0, ge=0, le=10**9, description="Tools that it called since the last report.")
    last_tool: str | None = Field(None, max_length=200)

    def to_sighting(self) -> AgentSighting:
        given = self.model_dump() | {"transport": AgentTransport(self.transport), "caller": CallerKind(self.caller)}
        return AgentSighting(**given)


class RefusalBody(Body):
    reason: Literal[
        "no_key", "wrong_key", "expired_key", "host", "origin", "too_many", "toolset", "transport", "other"
    ]  # fmt: skip
    client: str = Field("", max_length=200)
    address: str = Field("", max_length=200)
    path: str = Field("", max_length=200)
    detail: str = Field("", max_length=200)
    attempts: int = Field(1, ge=1, le=10**9)

    def to_refusal(self) -> NewRefusal:
        return NewRefusal(**(self.model_dump() | {"reason": RefusalReason(self.reason)}))


class RefusalsBody(Body):
    refused: Annotated[list[RefusalBody], Field(max_length=MAX_REFUSALS_PER_REPORT)]


def dump_refusals(refused: Sequence[NewRefusal]) -> Json:
    return {"refused": [dump(each) for each in refused]}


class QueryListing(Listing):
    since: datetime | None = Field(None, description="Only questions that were asked since then (ISO 8601).")
    unanswered: bool = Field(False, description="Only questions without a clear answer: the best score is below 0.5.")


@dataclass(frozen=True)
class LoggedQueryShape:
    """A question with how often it was asked."""

    query: str
    count: int
    best: float | None
    answered: bool
    first_at: datetime
    last_at: datetime

    @classmethod
    def from_query(cls, logged: LoggedQuery) -> LoggedQueryShape:
        return cls(logged.query, logged.count, logged.best, logged.is_answered, logged.first_at, logged.last_at)

    def to_query(self) -> LoggedQuery:
        return LoggedQuery(self.query, self.count, self.best, self.first_at, self.last_at)


@dataclass(frozen=True)
class QueryLogShape:
    """The caller's questions."""

    enabled: bool
    kept_days: int
    queries: tuple[LoggedQueryShape, ...]
    total: int
    unanswered: int

    @classmethod
    def from_log(cls, log: QueryLog) -> QueryLogShape:
        listed = tuple(map(LoggedQueryShape.from_query, log.queries))
        return cls(log.enabled, log.kept_days, listed, log.total, log.unanswered)

    def to_log(self) -> QueryLog:
        listed = [each.to_query() for each in self.queries]
        return QueryLog(self.enabled, self.kept_days, listed, self.total, self.unanswered)


@dataclass(frozen=True)
class ForgottenShape:
    forgotten: int


class RatingBody(Body):
    query: str = Field(min_length=1, max_length=10_000, description="The question.")
    chunk_uid: BodyUuid = Field(description="The `chunk_uid` of a search result.")
    good: bool | None = Field(description="Whether the passage answers the question; null withdraws the mark.")


@dataclass(frozen=True)
class RatingsShape:
    ratings: tuple[RatedPassage, ...]


class HistoryQuery(BaseModel):
    hours: int = Field(24, ge=1, le=744, description="How many hours back; at most 31 days.")


@dataclass(frozen=True)
class HistoryShape:
    """Points from the oldest to the newest, each for the same number of hours."""

    points: tuple[HistoryPoint, ...]
