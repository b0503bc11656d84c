"""Clear names, addresses and payloads of removed or replaced documents from jobs and crawls.

The rows stay, with their ids, outcomes and times: docs/decisions/0013-deleted-from-the-disk.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, String, cast, delete, exists, func, literal, null, or_, select, update

from knowledge.model import Document, JobKind, JobStatus, Json
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.jobs.rows import REPEATABLE_KINDS, JobClaim

J, D, P, W, S = (
    schema.jobs.c,
    schema.documents.c,
    schema.crawl_pages.c,
    schema.crawls.c,
    schema.site_pages.c,
)

REMOVED_PLACEHOLDER = "(removed)"
"""Shown instead of a cleared name or address."""
NOTE_PLACEHOLDER = "Note"
"""Job name of a note whose text is not kept."""
ARCHIVE_SEPARATOR = "!/"
"""Separates the archive path from the name of a member."""
ENDED_STATUSES = (JobStatus.COMPLETED, JobStatus.PARTIAL, JobStatus.FAILED, JobStatus.CANCELLED)

MAX_SWEPT_ROWS = 10_000
"""Rows per sweep; the next sweep continues."""

_CLEARED_JOB: dict[str, Any] = {"filename": REMOVED_PLACEHOLDER, "payload": {}, "warnings": [], "error": null()}
_CLEARED_PAGE: dict[str, Any] = {"url": REMOVED_PLACEHOLDER, "known_as": None, "detail": ""}


def make_kept_values(kind: JobKind, filename: str, payload: Json) -> dict[str, Any]:
    """Return filename and payload of a job that ended without a document and without its original."""
    if kind in REPEATABLE_KINDS:
        return {}
    return {"payload": {}, "filename": NOTE_PLACEHOLDER if payload.get("kind") == "note" else filename}


def clear_removed(connection: Connection, documents: Sequence[Document]) -> None:
    """Clear the traces of removed documents."""
    identities = [document.id for document in documents]
    meant = cast(J.payload["document_id"].as_string(), BigInteger).in_(identities)
    without = J.status.in_((JobStatus.FAILED, JobStatus.CANCELLED)) & J.kind.in_((JobKind.UPDATE, JobKind.EMBED))
    _clear_jobs(connection, J.document_id.in_(identities))
    _clear_jobs(connection, without & meant)
    _clear_pages(connection, P.document_id.in_(identities) & _has_ended(P.job_id))
    for collection_id in {document.collection_id for document in documents}:
        paths = [each.source_path for each in documents if each.collection_id == collection_id and each.source_path]
        connection.execute(delete(schema.site_pages).where(S.collection_id == collection_id, S.name.in_(paths)))
        _clear_archives(connection, J.collection_id == collection_id)


def clear_replaced(connection: Connection, document_id: int, claim: JobClaim) -> None:
    """Clear the previous title or version of a document from its earlier jobs."""
    earlier = update(schema.jobs).where(J.document_id == document_id, J.id != claim.id)
    if claim.kind is JobKind.EMBED:
        connection.execute(earlier.where(J.kind == JobKind.EMBED).values(filename=claim.filename))
    else:
        connection.execute(earlier.values({**_CLEARED_JOB, "filename": claim.filename}))


def clear_collection(connection: Connection, collection_id: int) -> None:
    """Clear the ended jobs and crawls of a removed collection."""
    _clear_jobs(connection, (J.collection_id == collection_id) & J.status.in_(ENDED_STATUSES))
    _clear_crawls(connection, W.collection_id == collection_id)


def clear_owner(connection: Connection, owner: int) -> None:
    """Clear all ended jobs and crawls of an owner."""
    mine = (J.owner_id == owner) & J.status.in_(ENDED_STATUSES)
    _clear_crawls(connection, W.job_id.in_(select(J.id).where(mine)))
    _clear_jobs(connection, mine)


def sweep_traces(database: Database) -> None:
    """Clear traces that were still in use when their document was removed, such as pages of a running crawl."""
    gone = J.document_id.is_not(None) & J.status.in_(ENDED_STATUSES) & (J.filename != REMOVED_PLACEHOLDER)
    gone &= ~exists().where(D.id == J.document_id)
    lost = P.document_id.is_not(None) & (P.url != REMOVED_PLACEHOLDER) & ~exists().where(D.id == P.document_id)
    lost &= _has_ended(P.job_id)
    with database.read() as connection:  # a slow scan on large tables, which must not block the writer
        jobs = list(connection.execute(select(J.id).where(gone).limit(MAX_SWEPT_ROWS)).scalars())
        pages = list(connection.execute(select(P.id).where(lost).limit(MAX_SWEPT_ROWS)).scalars())

    def work(connection: Connection) -> None:
        _clear_jobs(connection, J.id.in_(jobs) & gone)
        _clear_pages(connection, P.id.in_(pages) & lost)

    if jobs or pages:
        database.write(work)


def _clear_jobs(connection: Connection, condition: Any) -> None:
    connection.execute(update(schema.jobs).where(condition).values(_CLEARED_JOB))


def _clear_pages(connection: Connection, condition: Any) -> None:
    name = literal("removed-").op("||")(cast(P.id, String))  # a name is unique within its crawl
    connection.execute(update(schema.crawl_pages).where(condition).values(_CLEARED_PAGE).values(name=name))


def _clear_crawls(connection: Connection, condition: Any) -> None:
    ended = condition & _has_ended(W.job_id)
    _clear_pages(connection, P.job_id.in_(select(W.job_id).where(ended)))
    connection.execute(update(schema.crawls).where(ended).values(url=REMOVED_PLACEHOLDER, site=None, exclude=[]))


def _clear_archives(connection: Connection, condition: Any) -> None:
    """Clear the jobs of archives that have no documents left and none queued."""
    archive = J.payload["archive"].as_string()
    jobs = schema.jobs.alias().c
    inside = func.substr(D.source_path, 1, func.length(archive) + len(ARCHIVE_SEPARATOR)) == archive.op("||")(
        ARCHIVE_SEPARATOR
    )
    left = exists().where(D.collection_id == J.collection_id, inside)
    coming = exists().where(
        jobs.collection_id == J.collection_id,
        jobs.kind == JobKind.ADD,
        jobs.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING)),
    )
    of_archives = condition & (J.kind == JobKind.UNPACK) & J.status.in_(ENDED_STATUSES) & archive.is_not(None)
    _clear_jobs(connection, of_archives & ~left & ~coming)


def _has_ended(job_id: Any) -> Any:
    job = schema.jobs.alias().c
    return or_(exists().where(job.id == job_id, job.status.in_(ENDED_STATUSES)), ~exists().where(job.id == job_id))
