"""Selections of documents that are edited or deleted together, and their results."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.model.search import DocumentFilter
from knowledge.model.values import Ref

MAX_LISTED_FAILURES = 100
"""Failures that a result lists; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSelection:
    """Documents by reference, or all that match a filter and that the caller may change."""

    ids: tuple[Ref, ...] = ()
    filter: DocumentFilter | None = None
    """Order and page of the filter are ignored."""


@dataclass(frozen=True, slots=True)
class BatchFailure:
    """A document that was not changed, and why."""

    id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class BatchResult:
    selected: int
    done: int
    failed: int = 0
    failures: tuple[BatchFailure, ...] = ()
    """At most MAX_LISTED_FAILURES."""
    chunks: int = 0
    """Chunks of the documents that were deleted."""
