"""The priorities of jobs, and the queues from which workers claim them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, bindparam, select, update

from knowledge.model import JobKind, JobStatus
from knowledge.store import schema
from knowledge.store.cluster.clock import database_now
from knowledge.store.jobs.rows import MAX_DEATHS, MAX_UNCLEAN_STARTS
from knowledge.store.prepared_statements import PreparedStatement

J = schema.jobs.c

LEASE_SECONDS = 60.0
"""Lease of a claimed job; its server renews it, and any server queues the job again when it has expired."""
PRIORITY_INTERACTIVE, PRIORITY_BULK, PRIORITY_BACKGROUND = 0, 10, 20
"""Priorities of notes, of files and crawls, and of background work."""
PRIORITY_INTERACTIVE_VECTORS = 1
PRIORITY_BULK_VECTORS, LAST_PRIORITY_BULK_VECTORS = 11, 19
"""Priorities of embedding, after those of reading: one for notes, and one for each size of other documents."""
SMALL_DOCUMENT_CHUNKS = 64


def find_vector_priority(priority: int, chunk_count: int) -> int:
    """Return the priority of embedding a document: interactive first, then small ones, in classes that double."""
    if priority < PRIORITY_BULK:
        return PRIORITY_INTERACTIVE_VECTORS
    size_class = (max(chunk_count - 1, 0) // SMALL_DOCUMENT_CHUNKS).bit_length()
    return min(PRIORITY_BULK_VECTORS + size_class, LAST_PRIORITY_BULK_VECTORS)


MUST_RUN_ALONE = (J.deaths >= MAX_DEATHS) | (J.unclean_starts >= MAX_UNCLEAN_STARTS)


class ClaimQueue:
    """A priority queue over the jobs that match some conditions, first in first out within a priority."""

    def __init__(self, *conditions: Any, status: JobStatus = JobStatus.QUEUED) -> None:
        first = select(J.id).where(J.status == status, *conditions).order_by(J.priority, J.id).limit(1)
        self.first = PreparedStatement(first.add_columns(J.priority))
        unlocked = first.with_for_update(skip_locked=True).scalar_subquery()
        lease_until = database_now() + bindparam("lease_microseconds", type_=BigInteger)
        self.claim = PreparedStatement(
            update(schema.jobs).where(J.id == unlocked).values(lease_until=lease_until).returning(schema.jobs)
        )


ORDINARY = ClaimQueue(J.priority <= bindparam("most"), J.kind != JobKind.CRAWL, ~MUST_RUN_ALONE)
WITHOUT_VECTORS = ClaimQueue(
    J.priority <= bindparam("most"), J.token.is_(None), J.change_seq.is_(None), status=JobStatus.PROCESSING
)
"""Jobs whose document is published by words and that wait for a worker to embed it."""
ALONE = ClaimQueue(J.kind != JobKind.CRAWL, MUST_RUN_ALONE)
CRAWLS = ClaimQueue(J.kind == JobKind.CRAWL, ~MUST_RUN_ALONE)
CRAWLS_ALONE = ClaimQueue(J.kind == JobKind.CRAWL, MUST_RUN_ALONE)
