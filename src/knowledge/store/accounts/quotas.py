"""Storage quotas of accounts, checked in the transaction that adds a document."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from knowledge.errors import QuotaExceeded
from knowledge.model import LOCAL_OWNER, Document, JobKind, JobStatus
from knowledge.model.accounts import AccountUsage
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.postgres import locks

C, D, J = schema.collections.c, schema.documents.c, schema.jobs.c


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits for one account; 0 means unlimited."""

    documents: int = 0
    bytes: int = 0


def check_quota(
    connection: Connection, quota: Quota, collection_id: int, size: int, old: Document | None = None
) -> None:
    """Reject a document that exceeds the quota of the collection's owner, counting queued uploads."""
    if not (quota.documents or quota.bytes):
        return
    owner = connection.execute(select(C.owner_id).where(C.id == collection_id)).scalar_one()
    if owner <= LOCAL_OWNER:
        return
    locks.lock_owner(connection, owner)
    documents, used = _count_usage(connection, owner)
    documents += 0 if old is not None else 1
    used += size - (old.size_bytes if old is not None else 0)
    if quota.documents and documents > quota.documents:
        raise QuotaExceeded(
            f"The account has reached its quota of {quota.documents} documents",
            max_documents=quota.documents,
        )
    if quota.bytes and used > quota.bytes:
        raise QuotaExceeded(
            f"{size} bytes exceed the quota of {quota.bytes >> 20} MB of the account",
            max_mb=quota.bytes >> 20,
            needed_bytes=size,
        )


def read_usage(database: Database, quota: Quota, owner: int) -> AccountUsage:
    """Return what an account stores, with its quota."""
    with database.snapshot() as connection:
        documents, used = _count_usage(connection, owner)
    return AccountUsage(documents, used, quota.documents or None, quota.bytes or None)


def _count_usage(connection: Connection, owner: int) -> tuple[int, int]:
    stored = select(func.count(), func.coalesce(func.sum(D.size_bytes), 0)).where(D.owner_id == owner)
    documents, used = connection.execute(stored).one()
    waiting = (
        select(J.payload)
        .join_from(schema.jobs, schema.collections, J.collection_id == C.id)
        .where(
            C.owner_id == owner,
            J.kind == JobKind.ADD,
            J.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING)),
            J.document_id.is_(None),
        )
    )
    sizes = [int(payload["size"]) for payload in connection.execute(waiting).scalars()]
    return int(documents) + len(sizes), int(used) + sum(sizes)
