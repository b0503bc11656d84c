"""Find, list, edit and delete documents; `publish.py` inserts them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, exists, func, insert, null, or_, select, update

from knowledge.errors import DocumentChanged, DocumentNotFound, InsufficientPermissions, NameTaken
from knowledge.model import (
    Chunk,
    CollectionRef,
    Document,
    DocumentEdit,
    DocumentFilter,
    DocumentLabels,
    DocumentStatus,
    JobKind,
    JobStatus,
    Ref,
    RemovalResult,
    ResultPage,
    Scope,
)
from knowledge.model.events import ChangeKind
from knowledge.store import collections, erasure, events, schema, suggestions
from knowledge.store.accounts import quotas
from knowledge.store.accounts.quotas import Quota
from knowledge.store.accounts.scopes import find_owner_for_writer
from knowledge.store.chunks import CHUNK_COLUMNS, drop_contents
from knowledge.store.crawls import site_pages
from knowledge.store.database import Database, LookAgain
from knowledge.store.library.filters import IS_FINISHED, SORT_COLUMNS, count_facet, list_conditions, visible_to
from knowledge.store.postgres import locks
from knowledge.store.prepared_statements import PreparedStatement
from knowledge.store.row_mapping import make_chunk, make_document, make_timestamp, parse_optional_timestamp

A, D, H, K, J, C, G = (
    schema.accounts.c,
    schema.documents.c,
    schema.chunks.c,
    schema.contents.c,
    schema.jobs.c,
    schema.collections.c,
    schema.document_tags.c,
)

IS_ADDING = (J.kind == JobKind.ADD) & J.status.in_((JobStatus.QUEUED, JobStatus.PROCESSING)) & J.change_seq.is_(None)
"""Jobs that have not added their document yet; one with a `document_id` has published it by words."""

DOCUMENT_COLUMNS = (schema.documents, C.name.label("collection_name"), A.username.label("added_by_name"))
_SELECT_DOCUMENTS = (
    select(*DOCUMENT_COLUMNS)
    .join_from(schema.documents, schema.collections, D.collection_id == C.id)
    .join(schema.accounts, D.added_by == A.id, isouter=True)
)
_SELECT_DOCUMENT = PreparedStatement(_SELECT_DOCUMENTS.where(D.id == bindparam("document_id")))
_SELECT_HITS = (
    select(
        *CHUNK_COLUMNS,
        *(column for column in D if column is not D.vector_count),
        null().label("vector_count"),
        *DOCUMENT_COLUMNS[1:],
    )
    .join_from(schema.chunks, schema.contents, H.content_id == K.id)
    .join(schema.documents, K.document_id == D.id)
    .join(schema.collections, D.collection_id == C.id)
    .join(schema.accounts, D.added_by == A.id, isouter=True)
    .where(H.id.in_(bindparam("ids", expanding=True)))
)
_SELECT_LABELS = (
    select(
        D.id,
        D.doc_type,
        D.language,
        D.tags,
        D.collection_id,
        D.owner_id,
        C.uid,
        C.name,
        C.title.label("collection_title"),
    )
    .join_from(schema.documents, schema.collections, D.collection_id == C.id)
    .where(D.id.in_(bindparam("ids", expanding=True)))
)
_FILE_IS_REFERENCED = PreparedStatement(
    select(
        or_(
            exists().where(D.sha256 == bindparam("sha256")),
            exists().where(J.sha256 == bindparam("sha256")),
        )
    )
)
FIND_AT_PATH = PreparedStatement(
    select(D.id).where(D.collection_id == bindparam("collection_id"), D.source_path == bindparam("source_path"))
)
_DELETE_TAGS = PreparedStatement(delete(schema.document_tags).where(G.document_id == bindparam("document_id")))
_INSERT_TAGS = PreparedStatement(insert(schema.document_tags))
IDS_PER_STATEMENT = 500
"""Ids per statement, because databases limit the number of parameters."""


class DocumentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- queries --------------------------------------------------------------------------------

    def find(self, ref: Ref, scope: Scope) -> Document:
        with self._database.read() as connection:
            row = connection.execute(_SELECT_DOCUMENTS.where(matches_ref(ref), visible_to(scope))).first()
        if row is None:
            raise not_found_error(ref)
        return make_document(row, scope)

    def get(self, identity: int) -> Document:
        """Return a document of any owner, for jobs whose permission was checked when they were queued."""
        with self._database.read() as connection:
            return get_document(connection, identity)

    def page(self, wanted: DocumentFilter, scope: Scope) -> ResultPage[Document]:
        column = SORT_COLUMNS[wanted.sort]
        order = (column.desc(), D.id.desc()) if wanted.descending else (column, D.id)
        offset = (wanted.page - 1) * wanted.per_page if wanted.offset is None else wanted.offset
        with self._database.snapshot() as connection:
            conditions = [visible_to(scope), *list_conditions(connection, wanted, scope)]
            total = connection.execute(
                select(func.count()).select_from(schema.documents).where(*conditions)
            ).scalar_one()
            rows = connection.execute(
                _SELECT_DOCUMENTS.where(*conditions).order_by(*order).limit(wanted.per_page).offset(offset)
            ).all()
            facets = {name: count_facet(connection, name, conditions) for name in wanted.facets} or None
        return ResultPage(tuple(make_document(row, scope) for row in rows), total, wanted.page, wanted.per_page, facets)

    def find_ids(self, refs: Sequence[Ref], scope: Scope) -> tuple[int, ...]:
        """Return the ids of documents; raises DocumentNotFound for an unknown one."""
        with self._database.read() as connection:
            return tuple(require_document(connection, ref, scope).id for ref in refs)

    def hits(self, chunk_ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]:
        """Return chunks with their documents (hydration), without those deleted or replaced since indexing."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_HITS, {"ids": chunk_ids}).all()
        found: dict[int, Document] = {}
        for row in rows:
            if row.id not in found:
                found[row.id] = make_document(row)
        return {row.chunk_id: (make_chunk(row, row.id), found[row.id]) for row in rows}

    def find_labels(self, document_ids: Sequence[int]) -> dict[int, DocumentLabels]:
        """Return what facets count of these documents, without those that were deleted."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_LABELS, {"ids": document_ids}).all()
        return {
            row.id: DocumentLabels(
                doc_type=row.doc_type,
                language=row.language,
                tags=tuple(row.tags),
                collection_id=row.collection_id,
                collection_uid=row.uid,
                collection=row.name,
                collection_title=row.collection_title,
                owner=row.owner_id,
            )
            for row in rows
        }

    def count(self, scope: Scope) -> tuple[int, int]:
        """Return the number of documents and chunks in a scope, without those that are processing."""
        counts = select(func.count(), func.coalesce(func.sum(D.chunk_count), 0)).where(visible_to(scope), IS_FINISHED)
        with self._database.read() as connection:
            documents, chunks = connection.execute(counts).one()
        return int(documents), int(chunks)

    def count_without_vectors(self, scope: Scope) -> int:
        """Return the number of chunks in a scope that are found by words only."""
        lacking = select(func.coalesce(func.sum(D.chunk_count - D.vector_count), 0)).where(
            visible_to(scope), IS_FINISHED
        )
        with self._database.read() as connection:
            return int(connection.execute(lacking).scalar_one())

    def list_chunk_counts(self) -> dict[int, int]:
        """Return the chunk count recorded in each document."""
        with self._database.read() as connection:
            return {row.id: row.chunk_count for row in connection.execute(select(D.id, D.chunk_count))}

    def list_finished(self) -> list[int]:
        """Return the ids of the documents that are not processing."""
        with self._database.read() as connection:
            return list(connection.execute(select(D.id).where(IS_FINISHED).order_by(D.id)).scalars())

    def has_path(self, collection_id: int, source_path: str | None) -> bool:
        """Return whether a collection has a document with this source path."""
        if source_path is None:
            return False
        values = {"collection_id": collection_id, "source_path": source_path}
        with self._database.read() as connection:
            return FIND_AT_PATH.fetch_scalar(connection, values) is not None

    def list_originals(self) -> dict[str, int]:
        """Return the SHA-256 and size of every original."""
        with self._database.read() as connection:
            return {row.sha256: row.size_bytes for row in connection.execute(select(D.sha256, D.size_bytes))}

    def list_with_file(self, sha256: str) -> list[Document]:
        """Return the documents with this original."""
        with self._database.read() as connection:
            return list_documents(connection, D.sha256 == sha256)

    def sum_file_bytes(self, owner: int | None = None) -> int:
        """Return the size of the originals of all finished documents or of one owner's, counting equal files once."""
        sizes = select(func.max(D.size_bytes).label("size")).where(IS_FINISHED).group_by(D.sha256)
        each = (sizes if owner is None else sizes.where(D.owner_id == owner)).subquery()
        with self._database.read() as connection:
            return int(connection.execute(select(func.coalesce(func.sum(each.c.size), 0))).scalar_one())

    def last_changed_at(self, scope: Scope) -> datetime | None:
        newest = select(func.max(D.updated_at)).where(visible_to(scope))
        with self._database.read() as connection:
            return parse_optional_timestamp(connection.execute(newest).scalar())

    def is_file_referenced(self, sha256: str) -> bool:
        """Return whether a document or job references an original."""
        with self._database.read() as connection:
            return bool(_FILE_IS_REFERENCED.fetch_scalar(connection, {"sha256": sha256}))

    # -- edits ----------------------------------------------------------------------------------

    def edit(self, ref: Ref, edit: DocumentEdit, scope: Scope, quota: Quota) -> Document:
        def work(connection: Connection) -> Document:
            before = require_writable(connection, ref, scope)
            target = None if edit.collection is None else collections.require_target(connection, edit.collection, scope)
            before = lock_document(connection, before, target)
            check_writable(before, scope)
            if edit.expected is not None:
                require_revision(before, edit.expected)
            values = apply_edit(connection, before, edit, scope, quota, target)
            edited = require_document(connection, before.id, scope)
            record_edit(connection, before, values)
            return edited

        return self._database.write(work)

    def remove(self, ref: Ref, scope: Scope) -> tuple[RemovalResult, list[str]]:
        """Delete a document; return the counts and the originals that may be unreferenced now."""

        def work(connection: Connection) -> tuple[RemovalResult, list[str]]:
            document = lock_document(connection, require_writable(connection, ref, scope))
            gone = remove_documents(connection, [document])
            events.record_removed(connection, [document])
            return gone

        return self._database.write(work)

    def remove_collection(self, ref: CollectionRef, scope: Scope) -> tuple[RemovalResult, list[str]]:
        def work(connection: Connection) -> tuple[RemovalResult, list[str]]:
            identity = collections.lock_own(connection, ref, scope)
            gone, found = remove_collection(connection, identity)
            events.record_removed(connection, found)
            return gone

        return self._database.write(work)

    def clear(self, scope: Scope) -> tuple[RemovalResult, list[str]]:
        def work(connection: Connection) -> tuple[RemovalResult, list[str]]:
            mine = D.owner_id == scope.owner
            used = connection.execute(select(D.collection_id).where(mine).distinct()).scalars().all()
            locks.lock_collections(connection, *used)
            found = list_documents(connection, mine & D.collection_id.in_(used))
            gone = remove_documents(connection, found)
            erasure.clear_owner(connection, scope.owner)
            events.record_removed(connection, found)
            return gone

        return self._database.write(work)


def matches_ref(ref: Ref) -> Any:
    return D.uid == ref if isinstance(ref, UUID) else D.id == ref


def not_found_error(ref: Ref) -> DocumentNotFound:
    return DocumentNotFound(f"Document with ID '{ref}' not found", document_id=str(ref))


def require_document(connection: Connection, ref: Ref, scope: Scope) -> Document:
    row = connection.execute(_SELECT_DOCUMENTS.where(matches_ref(ref), visible_to(scope))).first()
    if row is None:
        raise not_found_error(ref)
    return make_document(row, scope)


def require_writable(connection: Connection, ref: Ref, scope: Scope) -> Document:
    document = require_document(connection, ref, scope)
    check_writable(document, scope)
    return document


def check_writable(document: Document, scope: Scope) -> None:
    if not scope.may_write(document.owner, document.collection_id):
        raise InsufficientPermissions(f"No write permission for document {document.id}", document_id=document.id)


def get_document(connection: Connection, identity: int) -> Document:
    row = _SELECT_DOCUMENT.fetch_first(connection, {"document_id": identity})
    if row is None:
        raise not_found_error(identity)
    return make_document(row)


def require_revision(document: Document, expected: str) -> None:
    """Raise DocumentChanged unless a document is still the one that the caller has read."""
    if document.revision != expected:
        raise DocumentChanged(
            f"'{document.title}' was changed after you had read it", document_id=document.id, revision=document.revision
        )


def lock_document(connection: Connection, document: Document, target: int | None = None) -> Document:
    """Lock the collection of a document, and the one that it moves to, and return the document as it is now."""
    wanted = {document.collection_id, document.collection_id if target is None else target}
    if not locks.lock_collections(connection, *wanted):
        return document
    current = get_document(connection, document.id)
    if current.collection_id != document.collection_id:
        raise LookAgain("the document was moved meanwhile")
    return current


def remove_collection(connection: Connection, identity: int) -> tuple[tuple[RemovalResult, list[str]], list[Document]]:
    """Delete a locked collection with its documents; the caller records the removal of the documents returned last."""
    found = list_documents(connection, D.collection_id == identity)
    gone = remove_documents(connection, found)
    site_pages.forget_pages(connection, identity)
    erasure.clear_collection(connection, identity)
    collections.delete_collection(connection, identity)
    return gone, found


def write_tags(connection: Connection, document_id: int, tags: Sequence[str]) -> None:
    _DELETE_TAGS.run(connection, {"document_id": document_id})
    _INSERT_TAGS.run_many(connection, [{"document_id": document_id, "tag": tag} for tag in tags])


def apply_edit(
    connection: Connection, before: Document, edit: DocumentEdit, scope: Scope, quota: Quota, target: int | None
) -> dict[str, Any]:
    """Change a locked document and return the new values; `record_edit` follows at the end of the transaction."""
    values = _changed_values(connection, before, edit, scope, target)
    if values.get("owner_id", before.owner) != before.owner:
        quotas.check_quota(connection, quota, values["collection_id"], before.size_bytes)
    connection.execute(update(schema.documents).where(D.id == before.id).values(**values))
    if values.get("collection_id", before.collection_id) != before.collection_id:
        adding = update(schema.jobs).where(J.document_id == before.id, IS_ADDING)
        connection.execute(adding.values(collection_id=values["collection_id"]))
    write_tags(connection, before.id, _edited_tags(before, edit))
    if values.keys() & {"title", "filename", "collection_id"}:
        suggestions.rewrite_document(connection, before.id)
    return values


def _edited_tags(before: Document, edit: DocumentEdit) -> tuple[str, ...]:
    kept = [tag for tag in before.tags if tag not in edit.remove_tags]
    return tuple(dict.fromkeys([*kept, *edit.add_tags]))


def _changed_values(
    connection: Connection, before: Document, edit: DocumentEdit, scope: Scope, target: int | None
) -> dict[str, Any]:
    values: dict[str, Any] = {"updated_at": make_timestamp(), "tags": list(_edited_tags(before, edit))}
    for name, value in edit.changed_fields().items():
        values[name] = value or None if D[name].nullable else value  # an empty string clears a nullable column
    if edit.metadata is not None:
        values["metadata"] = collections.merge_metadata(before.metadata, edit.metadata)
    if target is not None:
        values["collection_id"] = target
        values["owner_id"] = find_owner_for_writer(connection, target, scope.owner)
    if edit.source_path is not None:
        _reject_taken_path(connection, before, edit.source_path, values.get("collection_id", before.collection_id))
        values["filename"] = PureWindowsPath(PurePosixPath(edit.source_path).name).name or before.filename
    return values


def record_edit(connection: Connection, before: Document, values: dict[str, Any]) -> None:
    """Record the change of a document; one that moved is removed from where it was, for those who see only that."""
    target, owner = values.get("collection_id", before.collection_id), values.get("owner_id", before.owner)
    change = ChangeKind.CHANGED
    if target != before.collection_id:
        gone, change = ChangeKind.REMOVED, ChangeKind.ADDED
        events.record_document(
            connection, gone, before.id, before.uid, owner=before.owner, collection_id=before.collection_id
        )
    events.record_document(connection, change, before.id, before.uid, owner=owner, collection_id=target)


def _reject_taken_path(connection: Connection, before: Document, path: str, collection_id: int) -> None:
    here = select(D.id).where(D.collection_id == collection_id, D.source_path == path, D.id != before.id)
    other = connection.execute(here).scalar()
    if other is not None:
        raise NameTaken(f"Document {other} already has the path {path}", source_path=path, document_id=other)


def list_documents(connection: Connection, condition: Any) -> list[Document]:
    return [make_document(row) for row in connection.execute(_SELECT_DOCUMENTS.where(condition).order_by(D.id))]


def remove_documents(connection: Connection, gone: Sequence[Document]) -> tuple[RemovalResult, list[str]]:
    for first in range(0, len(gone), IDS_PER_STATEMENT):
        _remove_batch(connection, [document.id for document in gone[first : first + IDS_PER_STATEMENT]])
        erasure.clear_removed(connection, gone[first : first + IDS_PER_STATEMENT])
    removed = RemovalResult(len(gone), sum(document.chunk_count for document in gone), 0)
    return removed, sorted({document.sha256 for document in gone})


def drop_processing(connection: Connection, identity: int) -> list[Document]:
    """Delete a document whose job failed or was cancelled while it was processing.

    The caller records the removal of the document that is returned.
    """
    found = list_documents(connection, (D.id == identity) & (D.status == DocumentStatus.PROCESSING))
    if found:
        _delete_rows(connection, [identity])
    return found


def _remove_batch(connection: Connection, identities: Sequence[int]) -> None:
    _delete_rows(connection, identities)
    cancelled = {"status": JobStatus.CANCELLED, "step": "Cancelled", "token": None, "sha256": None}
    adding = update(schema.jobs).where(J.document_id.in_(identities), IS_ADDING)
    connection.execute(adding.values(**cancelled, completed_at=make_timestamp()))


def _delete_rows(connection: Connection, identities: Sequence[int]) -> None:
    contents = list(connection.execute(select(K.id).where(K.document_id.in_(identities))).scalars())
    connection.execute(delete(schema.document_tags).where(G.document_id.in_(identities)))
    connection.execute(delete(schema.suggestions).where(schema.suggestions.c.document_id.in_(identities)))
    connection.execute(delete(schema.documents).where(D.id.in_(identities)))
    drop_contents(connection, contents)
