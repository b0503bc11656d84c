"""How much one account may keep: counted in the transaction that would add to it, so that no race gets around it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from knowledge.errors import QuotaExceeded
from knowledge.model import LOCAL_OWNER, Document, JobKind, JobStatus
from knowledge.store import schema

C, D, J = schema.collections.c, schema.documents.c, schema.jobs.c


@dataclass(frozen=True, slots=True)
class Quota:
    """0 means that there is no limit."""

    documents: int = 0
    bytes: int = 0


def check_quota(
    connection: Connection, quota: Quota, collection_id: int, size: int, old: Document | None = None
) -> None:
    """Refuse what would be too much for the collection's owner: what stands there, what is on its way, and this."""
    if not (quota.documents or quota.bytes):
        return
    owner = connection.execute(select(C.owner_id).where(C.id == collection_id)).scalar_one()
    if owner <= LOCAL_OWNER:
        return
    documents, used = _count_usage(connection, owner)
    documents += 0 if old is not None else 1
    used += size - (old.size_bytes if old is not None else 0)
    if quota.documents and documents > quota.documents:
        raise QuotaExceeded(
            f"The account may keep {quota.documents} documents, and has no room for another",
            max_documents=quota.documents,
        )
    if quota.bytes and used > quota.bytes:
        raise QuotaExceeded(
            f"The account may keep {quota.bytes >> 20} MB, and has no room for {size} bytes more",
            max_mb=quota.bytes >> 20,
            needed_bytes=size,
        )


def _count_usage(connection: Connection, owner: int) -> tuple[int, int]:
    there = select(func.count(), func.coalesce(func.sum(D.size_bytes), 0)).where(D.owner_id == owner)
    documents, used = connection.execute(there).one()
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
