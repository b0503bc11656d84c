"""Measures the queue and the contents of the database, of all accounts."""

from __future__ import annotations

from sqlalchemy import func, select

from knowledge.model import JobStatus, QueueLoad
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.row_mapping import make_timestamp

MICROSECONDS_PER_SECOND = 1_000_000
J, D = schema.jobs.c, schema.documents.c
_SELECT_QUEUE = (
    select(J.kind, J.status, func.count().label("jobs"), func.min(J.created_at).label("oldest_at"))
    .where(J.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING)))
    .group_by(J.kind, J.status)
    .order_by(J.kind, J.status)
)
_COUNT_CONTENTS = select(func.count(), func.coalesce(func.sum(D.chunk_count), 0)).select_from(schema.documents)


def measure_queue(database: Database) -> tuple[QueueLoad, ...]:
    """Return the unfinished jobs by kind and status, with the age of the oldest."""
    now = make_timestamp()
    with database.read() as connection:
        return tuple(
            QueueLoad(row.kind, row.status, row.jobs, max(0, now - row.oldest_at) // MICROSECONDS_PER_SECOND)
            for row in connection.execute(_SELECT_QUEUE)
        )


def count_contents(database: Database) -> tuple[int, int]:
    """Return the number of documents and chunks."""
    with database.read() as connection:
        documents, chunks = connection.execute(_COUNT_CONTENTS).one()
    return int(documents), int(chunks)
