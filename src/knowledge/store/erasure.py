"""What jobs and crawls keep of a document beside it (names, addresses, payloads), and how it is cleared when that
document is removed or replaced. The rows stay, with their ids, outcomes and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, String, cast, delete, exists, func, literal, null, or_, select, update

from knowledge.model import Document, JobKind, JobStatus, Json
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.jobs.rows import JobClaim

J, D, P, W, S = (
    schema.jobs.c,
    schema.documents.c,
    schema.crawl_pages.c,
    schema.crawls.c,
    schema.site_pages.c,
)

REMOVED_PLACEHOLDER = "(removed)"
"""What a job or a crawl shows in place of a name that is gone."""
NOTE_PLACEHOLDER = "Note"
"""What a job shows in place of the beginning of a note that is not kept."""
ARCHIVE_SEPARATOR = "!/"
"""Between an archive and the name of a document in it."""
ENDED_STATUSES = (JobStatus.COMPLETED, JobStatus.PARTIAL, JobStatus.FAILED, JobStatus.CANCELLED)
REPEATABLE_KINDS = (JobKind.EMBED, JobKind.CRAWL)
"""What can be retried without an original: its payload says only which document or which address."""

MAX_SWEPT_ROWS = 10_000
"""So many rows are cleared by one sweep; the next one goes on."""

_CLEARED_JOB: dict[str, Any] = {"filename": REMOVED_PLACEHOLDER, "payload": {}, "warnings": [], "error": null()}
_CLEARED_PAGE: dict[str, Any] = {"url": REMOVED_PLACEHOLDER, "known_as": None, "detail": ""}


def make_kept_values(kind: JobKind, filename: str, payload: Json) -> dict[str, Any]:
    """What remains in a job that ended without a document and whose original is not kept."""
    if kind in REPEATABLE_KINDS:
        return {}
    return {"payload": {}, "filename": NOTE_PLACEHOLDER if payload.get("kind") == "note" else filename}


def clear_removed(connection: Connection, documents: Sequence[Document]) -> None:
    """The traces of documents that have just been removed."""
    identities = [document.id for document in documents]
    meant = func.json_extract(J.payload, "$.document_id").in_(identities)
    without = J.status.in_((JobStatus.FAILED, JobStatus.CANCELLED)) & J.kind.in_((JobKind.UPDATE, JobKind.EMBED))
    _clear_jobs(connection, J.document_id.in_(identities))
    _clear_jobs(connection, without & meant)
    _clear_pages(connection, P.document_id.in_(identities) & _has_ended(P.job_id))
    for collection_id in {document.collection_id for document in documents}:
        paths = [each.source_path for each in documents if each.collection_id == collection_id and each.source_path]
        connection.execute(delete(schema.site_pages).where(S.collection_id == collection_id, S.name.in_(paths)))
        _clear_archives(connection, J.collection_id == collection_id)


def clear_replaced(connection: Connection, document_id: int, claim: JobClaim) -> None:
    """What earlier jobs of a document still say about the version, or about the title, that this job replaces."""
    earlier = update(schema.jobs).where(J.document_id == document_id, J.id != claim.id)
    if claim.kind is JobKind.EMBED:
        connection.execute(earlier.where(J.kind == JobKind.EMBED).values(filename=claim.filename))
    else:
        connection.execute(earlier.values({**_CLEARED_JOB, "filename": claim.filename}))


def clear_collection(connection: Connection, collection_id: int) -> None:
    """A collection is removed: its jobs and crawls keep nothing of it."""
    _clear_jobs(connection, (J.collection_id == collection_id) & J.status.in_(ENDED_STATUSES))
    _clear_crawls(connection, W.collection_id == collection_id)


def clear_owner(connection: Connection, owner: int) -> None:
    """Everything of an owner is removed."""
    mine = (J.owner_id == owner) & J.status.in_(ENDED_STATUSES)
    _clear_crawls(connection, W.job_id.in_(select(J.id).where(mine)))
    _clear_jobs(connection, mine)


def sweep_traces(database: Database) -> None:
    """What was still needed when its document was removed, such as the pages of a crawl that was under way."""
    gone = J.document_id.is_not(None) & J.status.in_(ENDED_STATUSES) & (J.filename != REMOVED_PLACEHOLDER)
    gone &= ~exists().where(D.id == J.document_id)
    lost = P.document_id.is_not(None) & (P.url != REMOVED_PLACEHOLDER) & ~exists().where(D.id == P.document_id)
    lost &= _has_ended(P.job_id)
    with database.read() as connection:  # to look takes long where there are many jobs, and must not hold up the writer
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
    """The names in an archive, once no document of it is left and none is on its way."""
    archive = func.json_extract(J.payload, "$.archive")
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
