"""The claim of a job while its document is published: checked, marked as published, released or superseded."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from knowledge.errors import Cancelled
from knowledge.model import JobStatus
from knowledge.store import documents, schema
from knowledge.store.jobs.rows import JobClaim
from knowledge.store.postgres import locks
from knowledge.store.prepared_statements import PreparedStatement

J = schema.jobs.c
WAITING_STEP = "Waiting for embedding"
_UPDATE_JOB = update(schema.jobs).where(J.id == bindparam("job_id"))
_MARK_PUBLISHED, _MARK_PUBLISHED_BY_WORDS = PreparedStatement(_UPDATE_JOB), PreparedStatement(_UPDATE_JOB)
_SELECT_CLAIMED = select(J.id).where(
    J.id == bindparam("job_id"), J.token == bindparam("mine"), J.status == JobStatus.PROCESSING
)
_FIND_CLAIMED, _LOCK_CLAIMED = PreparedStatement(_SELECT_CLAIMED), PreparedStatement(_SELECT_CLAIMED.with_for_update())


def require_claim(connection: Connection, claim: JobClaim, *, lock: bool = True) -> None:
    """Raise Cancelled if the job was cancelled or claimed by another worker; by default nobody can do so meanwhile."""
    if (_LOCK_CLAIMED if lock else _FIND_CLAIMED).fetch_scalar(
        connection, {"job_id": claim.id, "mine": claim.token}
    ) is None:
        raise Cancelled("The job was cancelled or claimed by another worker", job_id=str(claim.uid))


def mark_published(connection: Connection, claim: JobClaim, **values: Any) -> None:
    _MARK_PUBLISHED.run(connection, {"job_id": claim.id, "step": "Indexing", **values})


def mark_published_by_words(
    connection: Connection, claim: JobClaim, *, priority: int, keep_claim: bool, **values: Any
) -> None:
    """Record the document of a job that has no vectors yet; without `keep_claim` another worker may go on."""
    token = claim.token if keep_claim else None
    waiting = {"job_id": claim.id, "step": WAITING_STEP, "priority": priority, "token": token}
    _MARK_PUBLISHED_BY_WORDS.run(connection, {**waiting, **values})


def release_claim(connection: Connection, claim: JobClaim) -> None:
    """Leave the embedding of a document to the next free worker."""
    connection.execute(_UPDATE_JOB, {"job_id": claim.id, "step": WAITING_STEP, "token": None})


def lock_superseded(connection: Connection, document_id: int) -> None:
    """Lock the jobs that `end_superseded` changes, so that nobody waits for them while the change log is locked."""
    if locks.is_needed(connection):
        connection.execute(select(J.id).where(J.document_id == document_id).order_by(J.id).with_for_update())


def end_superseded(connection: Connection, document_id: int, claim: JobClaim, change_seq: int) -> None:
    """End the job that has published a document by words, because `claim` has replaced it with a complete one."""
    superseded = update(schema.jobs).where(J.document_id == document_id, J.id != claim.id, documents.IS_ADDING)
    connection.execute(
        superseded.values(
            status=JobStatus.PROCESSING, token=None, change_seq=change_seq, outcome=JobStatus.COMPLETED, step="Indexing"
        )
    )
