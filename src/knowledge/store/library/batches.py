"""Edit and delete many documents, some in each transaction, so that other writers need not wait long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, func, select

from knowledge.errors import KnowledgeError
from knowledge.model import Document, DocumentEdit, Ref, RemovalResult, Scope
from knowledge.model.library import BatchFailure, DocumentSelection
from knowledge.store import collections, documents, events, schema
from knowledge.store.accounts.quotas import Quota
from knowledge.store.database import Database, LookAgain
from knowledge.store.library.filters import list_conditions, visible_to, writable_in
from knowledge.store.postgres import locks

D = schema.documents.c
DOCUMENTS_PER_TRANSACTION = 100


@dataclass(frozen=True, slots=True)
class SelectedDocuments:
    ids: tuple[int, ...]
    chunks: int
    failures: tuple[BatchFailure, ...] = ()
    """References to documents that do not exist or that the caller may not change."""


class DocumentBatches:
    def __init__(self, database: Database) -> None:
        self._database = database

    def select(self, selection: DocumentSelection, scope: Scope) -> SelectedDocuments:
        """Resolve a selection to ids and count their chunks."""
        if selection.filter is None:
            return self._select_by_refs(selection.ids, scope)
        with self._database.snapshot() as connection:
            conditions = [visible_to(scope), writable_in(scope), *list_conditions(connection, selection.filter, scope)]
            ids = tuple(connection.execute(select(D.id).where(*conditions).order_by(D.id)).scalars())
            chunks = select(func.coalesce(func.sum(D.chunk_count), 0)).where(*conditions)
            return SelectedDocuments(ids, int(connection.execute(chunks).scalar_one()))

    def _select_by_refs(self, refs: Sequence[Ref], scope: Scope) -> SelectedDocuments:
        found: dict[int, int] = {}
        failures: list[BatchFailure] = []
        with self._database.snapshot() as connection:
            for ref in refs:
                try:
                    document = documents.require_writable(connection, ref, scope)
                except KnowledgeError as error:
                    failures.append(make_failure(ref, error))
                else:
                    found[document.id] = document.chunk_count
        return SelectedDocuments(tuple(found), sum(found.values()), tuple(failures))

    def edit(self, ids: Sequence[int], edit: DocumentEdit, scope: Scope, quota: Quota) -> list[BatchFailure]:
        """Change tags and collection of documents; return those that could not be changed."""
        failures: list[BatchFailure] = []
        for part in _split(ids):
            failures += self._database.write(lambda c, part=part: _edit_part(c, part, edit, scope, quota))  # type: ignore[misc]
        return failures

    def remove(self, ids: Sequence[int], scope: Scope) -> tuple[RemovalResult, list[str], list[BatchFailure]]:
        """Delete documents; return the counts, the originals that may be unreferenced now, and the failures."""
        total, originals, failures = RemovalResult(0, 0, 0), set[str](), list[BatchFailure]()
        for part in _split(ids):
            gone, freed, failed = self._database.write(lambda c, part=part: _remove_part(c, part, scope))  # type: ignore[misc]
            total = RemovalResult(total.documents + gone.documents, total.chunks + gone.chunks, 0)
            originals.update(freed)
            failures += failed
        return total, sorted(originals), failures


def make_failure(ref: Ref, error: KnowledgeError) -> BatchFailure:
    return BatchFailure(str(ref), error.code, str(error))


def _split(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[first : first + DOCUMENTS_PER_TRANSACTION] for first in range(0, len(ids), DOCUMENTS_PER_TRANSACTION))


def _edit_part(
    connection: Connection, ids: Sequence[int], edit: DocumentEdit, scope: Scope, quota: Quota
) -> list[BatchFailure]:
    target = None if edit.collection is None else collections.require_target(connection, edit.collection, scope)
    found, failures = _lock_writable(connection, ids, scope, target)
    changed: list[tuple[Document, dict[str, Any]]] = []
    for document in found:
        try:
            changed.append((document, documents.apply_edit(connection, document, edit, scope, quota, target)))
        except KnowledgeError as error:  # raised before anything is written for this document
            failures.append(make_failure(document.uid, error))
    for document, values in changed:  # last, because the lock of the change log is the last one
        documents.record_edit(connection, document, values)
    return failures


def _remove_part(
    connection: Connection, ids: Sequence[int], scope: Scope
) -> tuple[RemovalResult, list[str], list[BatchFailure]]:
    found, failures = _lock_writable(connection, ids, scope)
    gone, originals = documents.remove_documents(connection, found)
    events.record_removed(connection, found)
    return gone, originals, failures


def _lock_writable(
    connection: Connection, ids: Sequence[int], scope: Scope, target: int | None = None
) -> tuple[list[Document], list[BatchFailure]]:
    """Lock the collections of documents, and return those that the caller may change now."""
    wanted = D.id.in_(ids) & visible_to(scope)
    found = documents.list_documents(connection, wanted)
    used = {document.collection_id for document in found} | (set() if target is None else {target})
    if locks.lock_collections(connection, *used):
        found = documents.list_documents(connection, wanted)
        if not {document.collection_id for document in found} <= used:
            raise LookAgain("a document was moved meanwhile")
    writable: list[Document] = []
    failures = [make_failure(ref, documents.not_found_error(ref)) for ref in set(ids) - {each.id for each in found}]
    for document in found:
        try:
            documents.check_writable(document, scope)
        except KnowledgeError as error:
            failures.append(make_failure(UUID(str(document.uid)), error))
        else:
            writable.append(document)
    return writable, failures
