"""The log of events: changes of documents and collections with what decides who may see them, for `watch`.

It holds ids and no names, because a removed document leaves no trace: docs/decisions/0013-deleted-from-the-disk.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from knowledge.model import Document, Scope
from knowledge.model.events import ApprovalChange, ChangeKind, CollectionChange, DocumentChange
from knowledge.store import changes, schema
from knowledge.store.database import Database
from knowledge.store.postgres import locks
from knowledge.store.prepared_statements import PreparedStatement
from knowledge.store.row_mapping import make_timestamp

E, C = schema.events.c, schema.collections.c
DOCUMENT, COLLECTION, APPROVAL = "document", "collection", "approval"
KEPT_EVENTS = 10_000
"""Events that a watch can be continued from; older ones are deleted by the sweep."""
_INSERT_EVENT = PreparedStatement(insert(schema.events))
_SELECT_AFTER = (
    select(schema.events, C.name.label("collection_name"))
    .join_from(schema.events, schema.collections, E.collection_id == C.id, isouter=True)
    .where(E.id > bindparam("after"))
    .order_by(E.id)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    id: int
    change_seq: int | None
    """The change that the index must apply before the event is told."""
    at: int
    owner: int
    collection_id: int
    data: DocumentChange | CollectionChange | ApprovalChange

    def is_visible_to(self, scope: Scope, *, is_admin: bool = False) -> bool:
        if isinstance(self.data, ApprovalChange):
            return is_admin or self.owner == scope.owner
        return self.owner == scope.owner or self.collection_id in scope.collections


def record_document(
    connection: Connection,
    change: ChangeKind,
    document_id: int,
    uid: UUID,
    *,
    owner: int,
    collection_id: int,
    vectors_only: bool = False,
) -> int:
    """Record the change of a document in the change log and in the events; return its number in the change log."""
    seq = changes.record_change(connection, document_id, vectors_only=vectors_only)
    _record(connection, [_make_row(DOCUMENT, change, document_id, uid, owner, collection_id, seq)])
    return seq


def record_removed(connection: Connection, documents: Sequence[Document]) -> None:
    """Record the removal of documents; last in a transaction, like `record_change`."""
    seq = changes.record_changes(connection, [document.id for document in documents])
    _record(
        connection,
        [
            _make_row(DOCUMENT, ChangeKind.REMOVED, each.id, each.uid, each.owner, each.collection_id, seq)
            for each in documents
        ],
    )


def record_collection(connection: Connection, change: ChangeKind, collection_id: int, uid: UUID, owner: int) -> None:
    """Record the change of a collection; anywhere in a transaction, because the lock is taken at its end."""
    row = _make_row(COLLECTION, change, collection_id, uid, owner, collection_id, None)
    locks.run_last(connection, lambda last: _record(last, [row]))


def record_approval(connection: Connection, collection_id: int, uid: UUID, owner: int) -> None:
    """Record that a corpus waits for approval or was judged; anywhere in a transaction."""
    row = _make_row(APPROVAL, ChangeKind.CHANGED, collection_id, uid, owner, collection_id, None)
    locks.run_last(connection, lambda last: _record(last, [row]))


def _record(connection: Connection, rows: list[dict[str, Any]]) -> None:
    if rows:
        locks.lock_change_log(connection)  # so that the numbers of events are in the order of the commits
        _INSERT_EVENT.run_many(connection, rows)


def _make_row(
    subject: str, change: ChangeKind, identity: int, uid: UUID, owner: int, collection_id: int, seq: int | None
) -> dict[str, Any]:
    return {
        "subject": subject,
        "change": change,
        "subject_id": identity,
        "subject_uid": uid,
        "owner_id": owner,
        "collection_id": collection_id,
        "change_seq": seq,
        "at": make_timestamp(),
    }


class EventLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read_after(self, number: int, limit: int) -> list[StoredEvent]:
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_AFTER, {"after": number, "most": limit}).all()
        return [_make_event(row) for row in rows]

    def newest(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute(select(func.max(E.id))).scalar() or 0)

    def find_time(self, number: int) -> int | None:
        """Return when this event or the next one was recorded; None if events after this number were deleted."""
        with self._database.read() as connection:
            oldest, newest = connection.execute(select(func.min(E.id), func.max(E.id))).one()
            if number > (newest or 0) or number + 1 < (oldest or 0):
                return None
            at = connection.execute(select(E.at).where(E.id >= number).order_by(E.id).limit(1)).scalar()
        return int(at or 0)

    def trim(self, kept: int = KEPT_EVENTS) -> None:
        oldest = self.newest() - kept
        if oldest > 0:
            self._database.write(lambda connection: connection.execute(delete(schema.events).where(E.id <= oldest)))


def _make_event(row: Any) -> StoredEvent:
    change = ChangeKind(row.change)
    data: DocumentChange | CollectionChange | ApprovalChange
    if row.subject == APPROVAL:
        data = ApprovalChange(row.subject_id, row.subject_uid)
    elif row.subject == DOCUMENT:
        data = DocumentChange(row.subject_id, row.subject_uid, change, row.collection_name)
    else:
        name = None if change is ChangeKind.REMOVED else row.collection_name
        data = CollectionChange(row.subject_id, row.subject_uid, name, change)
    return StoredEvent(row.id, row.change_seq, row.at, row.owner_id, row.collection_id, data)
