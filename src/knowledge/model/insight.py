"""What was asked, what was found helpful, and how much happened over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

ANSWERED_RELEVANCE = 0.5
"""Relevance of the best passage from which on a question counts as answered."""


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    query: str
    count: int
    """How often it was asked; the same question within two seconds counts once."""
    best: float | None
    """Relevance of the best passage when it was asked last; None without one."""
    first_at: datetime
    last_at: datetime

    @property
    def is_answered(self) -> bool:
        return self.best is not None and self.best >= ANSWERED_RELEVANCE


@dataclass(frozen=True, slots=True)
class QueryLog:
    enabled: bool
    """Whether questions are logged: KNOWLEDGE_QUERY_LOG."""
    kept_days: int
    queries: Sequence[LoggedQuery]
    total: int
    unanswered: int
    """Questions of the whole log that are not answered."""


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """The logs of all accounts, counted, without questions and names."""

    questions: int
    searches: int
    unanswered: int


@dataclass(frozen=True, slots=True)
class RatedPassage:
    """A passage that a person marked as an answer to a question, or as none."""

    query: str
    good: bool
    document_uid: UUID
    title: str
    chunk_uid: UUID
    passage: str
    rated_at: datetime


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """What happened from a time on, until the next point."""

    at: datetime
    documents: int | None
    """At the end of the period; None if it is not known."""
    queued: int | None
    """Unfinished jobs at the end of the period."""
    searches: int
    mean_ms: float | None
    slowest_ms: float | None
