"""Publish staged chunks as a new document or a new version in one short transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, insert, select, update

from knowledge.errors import Duplicate
from knowledge.model import Description, Document, DocumentKind, DocumentStatus, ExtractionMethod, new_uid
from knowledge.model.documents import DESCRIPTION_FIELDS
from knowledge.model.events import ChangeKind
from knowledge.store import documents, erasure, events, schema, suggestions
from knowledge.store.accounts.scopes import find_owner_for_writer
from knowledge.store.chunks import (
    EmbeddedChunk,
    StagedChunk,
    begin_content,
    insert_content,
    publish_content,
    retire_content,
    stage_chunks,
    store_vectors,
)
from knowledge.store.database import Database
from knowledge.store.jobs import claims
from knowledge.store.jobs.rows import JobClaim
from knowledge.store.library.filters import IS_FINISHED
from knowledge.store.pages.words import StagedWords, copy_words, store_words
from knowledge.store.postgres import locks
from knowledge.store.prepared_statements import PreparedStatement
from knowledge.store.row_mapping import make_timestamp

D = schema.documents.c
_IN_COLLECTION = D.collection_id == bindparam("collection_id")
_FIND_SAME_BYTES = PreparedStatement(select(D.id).where(_IN_COLLECTION, D.sha256 == bindparam("sha256"), IS_FINISHED))
_INSERT_DOCUMENT = PreparedStatement(insert(schema.documents))
_FINISH_DOCUMENT = PreparedStatement(update(schema.documents).where(D.id == bindparam("document_id")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication(Description):
    """The fields of a document to publish and its staged content."""

    content_id: int | None
    """Staged content; None for a small document whose chunks are all in `unstaged`."""
    unstaged: tuple[StagedChunk, ...]
    """Chunks that are inserted by the publishing transaction."""
    model_id: int | None
    title: str
    kind: DocumentKind
    doc_type: str
    filename: str | None
    sha256: str
    size_bytes: int
    status: DocumentStatus
    method: ExtractionMethod
    warnings: tuple[str, ...]
    language: str | None
    page_count: int | None
    chunk_count: int
    words: tuple[StagedWords, ...] = ()
    """Words of pages that are inserted by the publishing transaction."""
    keep_words: bool = False
    """Whether the words of the replaced content are kept, because the pages are the same."""


DOCUMENT_FIELDS = tuple(each.name for each in fields(Publication) if each.name in Document.__slots__)
"""Fields of a publication that are columns of the document."""
KEPT_ON_REPLACE = tuple(name for name in DESCRIPTION_FIELDS if name != "title")
"""Fields given by the caller that stay unchanged when the content is replaced."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    document_id: int
    document_uid: UUID
    replaced_sha256: str | None


@dataclass(frozen=True, slots=True)
class EventPlace:
    """What decides who sees the event of a publication."""

    change: ChangeKind
    owner: int
    collection_id: int


class Publisher:
    def __init__(self, database: Database) -> None:
        self._database = database

    def begin_content(self, claim: JobClaim) -> int:
        """Begin to stage the chunks of a job if it is still claimed; what an earlier attempt staged is deleted."""

        def work(connection: Connection) -> int:
            claims.require_claim(connection, claim)
            return begin_content(connection, claim.id)

        return self._database.write(work)

    def add(self, claim: JobClaim, publication: Publication) -> PublishResult:
        """Publish a new document, or replace the one with the same source path."""

        def work(connection: Connection) -> PublishResult:
            assert claim.collection_id is not None
            locks.lock_collections(connection, claim.collection_id)
            claims.require_claim(connection, claim)
            owner = find_owner_for_writer(connection, claim.collection_id, claim.owner)
            old = find_at_path(connection, claim.collection_id, publication.source_path)
            reject_duplicate(connection, claim.collection_id, publication.sha256, old)
            if old is None:
                return _insert_document(connection, claim, owner, publication)
            return _replace_document(connection, claim, publication, old)

        return self._database.write(work)

    def add_by_words(
        self, claim: JobClaim, publication: Publication, *, priority: int, keep_claim: bool
    ) -> PublishResult | None:
        """Publish a new document without vectors, with status processing; None if its source path has a document."""
        by_words = replace(publication, status=DocumentStatus.PROCESSING)

        def work(connection: Connection) -> PublishResult | None:
            assert claim.collection_id is not None
            locks.lock_collections(connection, claim.collection_id)
            claims.require_claim(connection, claim)
            owner = find_owner_for_writer(connection, claim.collection_id, claim.owner)
            if find_at_path(connection, claim.collection_id, publication.source_path) is not None:
                return None
            reject_duplicate(connection, claim.collection_id, publication.sha256, None)
            published = _insert_rows(connection, claim, owner, by_words)
            claims.mark_published_by_words(
                connection,
                claim,
                priority=priority,
                keep_claim=keep_claim,
                document_id=published.document_id,
                document_uid=published.document_uid,
                chunk_count=publication.chunk_count,
                warnings=list(publication.warnings),
            )
            _record_change(connection, EventPlace(ChangeKind.ADDED, owner, claim.collection_id), published)
            return published

        return self._database.write(work)

    def add_vectors(
        self, claim: JobClaim, model_id: int, embedded: Sequence[EmbeddedChunk], *, keep_claim: bool
    ) -> None:
        """Store vectors of a processing document if its job is still claimed."""

        def work(connection: Connection) -> None:
            claims.require_claim(connection, claim)
            store_vectors(connection, model_id, embedded)
            if not keep_claim:
                claims.release_claim(connection, claim)

        self._database.write(work)

    def complete(
        self, claim: JobClaim, document_id: int, model_id: int | None, embedded: Sequence[EmbeddedChunk]
    ) -> PublishResult:
        """Store the last vectors of a processing document and end its processing."""

        def work(connection: Connection) -> PublishResult:
            document = _lock_claimed_document(connection, claim, document_id)
            reject_duplicate(connection, document.collection_id, document.sha256, None)
            if model_id is not None:
                store_vectors(connection, model_id, embedded)
            status = DocumentStatus.PARTIAL if document.warnings else DocumentStatus.COMPLETED
            vectors = 0 if model_id is None else document.chunk_count
            _FINISH_DOCUMENT.run(connection, {"document_id": document_id, "status": status, "vector_count": vectors})
            published = PublishResult(document.id, document.uid, None)
            place = EventPlace(ChangeKind.CHANGED, document.owner, document.collection_id)
            finished = replace(document, status=status)
            _log_change_and_job(connection, claim, finished, published, place, vectors_only=True)
            return published

        return self._database.write(work)

    def replace(
        self, claim: JobClaim, document_id: int, publication: Publication, expected: str | None = None
    ) -> PublishResult:
        """Replace the content of a document; its id, collection and tags stay unchanged.

        Raises DocumentChanged if the document has not the expected revision.
        """

        def work(connection: Connection) -> PublishResult:
            old = _lock_claimed_document(connection, claim, document_id)
            if expected is not None:
                documents.require_revision(old, expected)
            find_owner_for_writer(connection, old.collection_id, claim.owner)
            return _replace_document(connection, claim, publication, old, keep=KEPT_ON_REPLACE)

        return self._database.write(work)


def _lock_claimed_document(connection: Connection, claim: JobClaim, document_id: int) -> Document:
    """Return a document with its collection locked, if its job is still claimed."""
    claims.require_claim(connection, claim, lock=False)
    document = documents.lock_document(connection, documents.get_document(connection, document_id))
    claims.require_claim(connection, claim)
    return document


def find_at_path(connection: Connection, collection_id: int, source_path: str | None) -> Document | None:
    """Return the document with a source path, or None without a path."""
    if source_path is None:
        return None
    identity = documents.FIND_AT_PATH.fetch_scalar(
        connection, {"collection_id": collection_id, "source_path": source_path}
    )
    return None if identity is None else documents.get_document(connection, identity)


def reject_duplicate(connection: Connection, collection_id: int, sha256: str, old: Document | None) -> None:
    """Raise Duplicate if a finished document has the same content, unless this is a new version of `old`."""
    if old is not None and old.sha256 != sha256:
        return
    identity = _FIND_SAME_BYTES.fetch_scalar(connection, {"collection_id": collection_id, "sha256": sha256})
    if identity is not None:
        raise make_duplicate_error(documents.get_document(connection, identity))


def make_duplicate_error(document: Document) -> Duplicate:
    return Duplicate(
        f"The same content already exists as '{document.title}'",
        document_id=document.id,
        document_uid=str(document.uid),
        title=document.title,
        chunk_count=document.chunk_count,
    )


def _complete_content(connection: Connection, claim: JobClaim, publication: Publication) -> int:
    """Insert the unstaged chunks and return the id of the complete content."""
    content_id = publication.content_id or insert_content(connection, claim.id)
    staged = publication.chunk_count - len(publication.unstaged)
    stage_chunks(connection, content_id, staged, publication.unstaged, publication.model_id)
    store_words(connection, content_id, publication.words)
    return content_id


def _document_values(publication: Publication, content_id: int) -> dict[str, Any]:
    values = {name: getattr(publication, name) for name in DOCUMENT_FIELDS}
    vectors = 0 if publication.model_id is None else publication.chunk_count
    return {**values, "content_id": content_id, "updated_at": make_timestamp(), "vector_count": vectors}


def _insert_document(connection: Connection, claim: JobClaim, owner: int, publication: Publication) -> PublishResult:
    published = _insert_rows(connection, claim, owner, publication)
    assert claim.collection_id is not None
    place = EventPlace(ChangeKind.ADDED, owner, claim.collection_id)
    _log_change_and_job(connection, claim, publication, published, place)
    return published


def _insert_rows(connection: Connection, claim: JobClaim, owner: int, publication: Publication) -> PublishResult:
    values = _document_values(publication, _complete_content(connection, claim, publication))
    uid = new_uid()
    values |= {
        "uid": uid,
        "collection_id": claim.collection_id,
        "owner_id": owner,
        "added_by": claim.owner,
        "created_at": values["updated_at"],
    }
    identity = _INSERT_DOCUMENT.insert(connection, values)
    publish_content(connection, values["content_id"], identity)
    documents.write_tags(connection, identity, publication.tags)
    suggestions.rewrite_document(connection, identity)
    return PublishResult(identity, uid, None)


def _replace_document(
    connection: Connection, claim: JobClaim, publication: Publication, old: Document, keep: tuple[str, ...] = ()
) -> PublishResult:
    new = _document_values(publication, _complete_content(connection, claim, publication))
    values = {name: value for name, value in new.items() if name not in keep}
    if old.sha256 != publication.sha256:
        values["added_by"] = claim.owner
    old_content = connection.execute(select(D.content_id).where(D.id == old.id)).scalar_one()
    connection.execute(update(schema.documents).where(D.id == old.id).values(**values))
    if "tags" not in keep:
        documents.write_tags(connection, old.id, publication.tags)
    publish_content(connection, new["content_id"], old.id)
    if publication.keep_words:
        copy_words(connection, old_content, new["content_id"])
    suggestions.rewrite_document(connection, old.id)
    erasure.clear_replaced(connection, old.id, claim)
    claims.lock_superseded(connection, old.id)
    replaced = old.sha256 if old.sha256 != publication.sha256 else None
    published = PublishResult(old.id, old.uid, replaced)
    place = EventPlace(ChangeKind.CHANGED, old.owner, old.collection_id)
    seq = _log_change_and_job(connection, claim, publication, published, place)
    retire_content(connection, old_content, seq)
    claims.end_superseded(connection, old.id, claim, seq)
    return published


def _record_change(
    connection: Connection, place: EventPlace, result: PublishResult, *, vectors_only: bool = False
) -> int:
    return events.record_document(
        connection,
        place.change,
        result.document_id,
        result.document_uid,
        owner=place.owner,
        collection_id=place.collection_id,
        vectors_only=vectors_only,
    )


def _log_change_and_job(
    connection: Connection,
    claim: JobClaim,
    publication: Publication | Document,
    result: PublishResult,
    place: EventPlace,
    *,
    vectors_only: bool = False,
) -> int:
    """Record the change, mark the job as published, and return the sequence number.

    Only statements that need the number come after it, on rows that this transaction has locked already.
    """
    seq = _record_change(connection, place, result, vectors_only=vectors_only)
    claims.mark_published(
        connection,
        claim,
        change_seq=seq,
        outcome=publication.status,
        document_id=result.document_id,
        document_uid=result.document_uid,
        chunk_count=publication.chunk_count,
        warnings=list(publication.warnings),
    )
    return seq
