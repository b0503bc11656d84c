"""Documents that older versions read without boxes of words or lines of code, and the jobs that read them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, exists, func, select

from knowledge.model import DocumentStatus, ExtractionMethod, JobKind, JobStatus, Json, new_uid
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.jobs import claims, jobs
from knowledge.store.jobs.claim_queues import PRIORITY_BACKGROUND
from knowledge.store.jobs.rows import JobClaim, NewJob
from knowledge.store.pages.words import StagedWords, store_words
from knowledge.store.postgres import locks

W, D, J, H = schema.page_words.c, schema.documents.c, schema.jobs.c, schema.chunks.c
_IS_WAITING = (J.kind == JobKind.REREAD) & J.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING))
JOBS_PER_TRANSACTION = 200
SPLIT_AGAIN = "split"
"""Payload of a job that replaces the chunks of a document."""


@dataclass(frozen=True, slots=True)
class RereadTypes:
    """The document types that are read again."""

    recognised: frozenset[str]
    """Scans and images, for the boxes of their words."""
    code: frozenset[str]
    """Source code, for its definitions and lines."""
    max_code_bytes: int
    """Larger files have no lines."""


@dataclass(frozen=True, slots=True)
class RereadSource:
    content_id: int
    sha256: str
    doc_type: str
    method: ExtractionMethod
    filename: str


class RereadQueue:
    def __init__(self, database: Database) -> None:
        self._database = database

    def queue_missing(self, types: RereadTypes) -> int:
        """Queue a job for each document without words or lines that has none yet; return their number."""
        with self._database.read() as connection:
            listed = _list_missing(connection, types)
        queued = 0
        for first in range(0, len(listed), JOBS_PER_TRANSACTION):
            batch = listed[first : first + JOBS_PER_TRANSACTION]
            queued += self._database.write(lambda connection, batch=batch: _queue_jobs(connection, types, batch))  # type: ignore[misc]
        return queued

    def count_waiting(self) -> int:
        with self._database.read() as connection:
            return connection.execute(select(func.count()).select_from(schema.jobs).where(_IS_WAITING)).scalar_one()

    def find_source(self, document_id: int) -> RereadSource | None:
        """Return what to read of a document; None if it was removed."""
        wanted = select(D.content_id, D.sha256, D.doc_type, D.method, D.filename, D.title).where(D.id == document_id)
        with self._database.read() as connection:
            row = connection.execute(wanted).first()
        return None if row is None else RereadSource(*row[:3], ExtractionMethod(row.method), row.filename or row.title)

    def store(self, claim: JobClaim, document_id: int, content_id: int, words: Sequence[StagedWords]) -> None:
        """Store the words of a document unless a new version has replaced its content."""

        def work(connection: Connection) -> None:
            claims.require_claim(connection, claim)
            current = connection.execute(select(D.content_id).where(D.id == document_id)).scalar()
            if current == content_id:
                store_words(connection, content_id, words)

        self._database.write(work)


def _list_missing(connection: Connection, types: RereadTypes, among: Sequence[int] | None = None) -> list[Any]:
    has_words, has_lines = (
        exists().where(W.content_id == D.content_id),
        exists().where(H.content_id == D.content_id, H.first_line.is_not(None)),
    )
    is_code = D.doc_type.in_(sorted(types.code))
    lacks_words = D.doc_type.in_(sorted(types.recognised)) & (D.method != ExtractionMethod.TEXT_EXTRACTION) & ~has_words
    lacks_lines = is_code & (D.size_bytes <= types.max_code_bytes) & ~has_lines
    wanted = (
        select(D.id, D.owner_id, D.collection_id, D.filename, D.title, is_code.label("is_code"))
        .where(lacks_words | lacks_lines, D.status != DocumentStatus.PROCESSING)
        .where(~exists().where(J.document_id == D.id, _IS_WAITING))
        .order_by(D.id)
    )
    return list(connection.execute(wanted if among is None else wanted.where(D.id.in_(among))))


def _queue_jobs(connection: Connection, types: RereadTypes, listed: Sequence[Any]) -> int:
    """Queue the jobs of those documents that another call has not queued since they were listed."""
    locks.lock_collections(connection, *(row.collection_id for row in listed))
    documents = _list_missing(connection, types, [row.id for row in listed])
    for row in documents:
        name = row.filename or row.title
        payload: Json = {SPLIT_AGAIN: True} if row.is_code else {}
        new = NewJob(
            new_uid(), JobKind.REREAD, row.owner_id, row.collection_id, name, payload, None, PRIORITY_BACKGROUND, row.id
        )
        jobs.queue_job(connection, new)
    return len(documents)
