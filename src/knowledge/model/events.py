"""Events: what changed in the part of the data that a caller may see."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from knowledge.model.agents import Agent, RefusedAttempt
from knowledge.model.jobs import Job, JobStatus


class EventKind(StrEnum):
    HELLO = "hello"
    """The first event: the unfinished jobs, and the number of the last change."""
    JOB = "job"
    CRAWL = "crawl"
    DOCUMENT = "document"
    COLLECTION = "collection"
    APPROVAL = "approval"
    """A corpus became public or private, or was approved, declined or revoked; for its owner and for admins."""
    AGENT = "agent"
    """An agent has connected or called a tool."""
    REFUSAL = "refusal"
    """An attempt to use MCP was refused; for the operator alone."""
    RESET = "reset"
    """Changes were missed that cannot be sent again: read everything anew."""
    HEARTBEAT = "heartbeat"
    """Nothing happened; carries the number of the last change."""


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Hello:
    jobs: tuple[Job, ...]
    """Unfinished jobs, newest first, at most 200."""
    unfinished: int
    """How many jobs are unfinished."""
    seq: int
    """Number of the last change."""


@dataclass(frozen=True, slots=True)
class CrawlProgress:
    job_id: int
    pages_done: int
    pages_total: int
    status: JobStatus


@dataclass(frozen=True, slots=True)
class DocumentChange:
    id: int
    uid: UUID
    change: ChangeKind
    collection: str | None
    """Name of its collection; None if that is removed."""


@dataclass(frozen=True, slots=True)
class CollectionChange:
    id: int
    uid: UUID
    name: str | None
    """None if the collection is removed."""
    change: ChangeKind


@dataclass(frozen=True, slots=True)
class ApprovalChange:
    id: int
    uid: UUID


EventData: TypeAlias = (
    Hello | Job | CrawlProgress | DocumentChange | CollectionChange | ApprovalChange | Agent | RefusedAttempt | None
)


@dataclass(frozen=True, slots=True)
class Event:
    kind: EventKind
    data: EventData = None
    seq: int | None = None
    """Number of the change, from which a watch can be continued; None for what is not in the log of changes."""
