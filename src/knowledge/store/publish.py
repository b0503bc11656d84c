"""The one small transaction that turns prepared passages into a document, or into the next version of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, insert, select, update

from knowledge.errors import Duplicate
from knowledge.model import Document, DocumentStatus, Json, Kind, Method, new_uid
from knowledge.store import changes, documents, schema, traces
from knowledge.store.accounts.permissions import owner_for_writer
from knowledge.store.chunks import StagedChunk, new_content, publish_content, retire_content, stage
from knowledge.store.database import Database
from knowledge.store.jobs import jobs
from knowledge.store.jobs.rows import Claim
from knowledge.store.statements import Prepared
from knowledge.store.timestamps import stamp

D = schema.documents.c
_IN = D.collection_id == bindparam("collection_id")
_AT_PATH = Prepared(select(D.id).where(_IN, D.source_path == bindparam("source_path")))
_SAME = Prepared(select(D.id).where(_IN, D.sha256 == bindparam("sha256")))
_INSERT = Prepared(insert(schema.documents))


@dataclass(frozen=True, slots=True)
class Publication:
    """A document as it shall be, and the content that was prepared for it."""

    content_id: int | None
    """None where everything fits into this one transaction."""
    last: tuple[StagedChunk, ...]
    """The passages that were not staged before."""
    model_id: int | None
    title: str
    kind: Kind
    doc_type: str
    filename: str | None
    source_path: str | None
    url: str | None
    sha256: str
    size_bytes: int
    status: DocumentStatus
    method: Method
    warnings: tuple[str, ...]
    tags: tuple[str, ...]
    metadata: Json
    language: str | None
    page_count: int | None
    chunk_count: int


@dataclass(frozen=True, slots=True)
class Published:
    document_id: int
    document_uid: UUID
    replaced_sha256: str | None


class Publisher:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, claim: Claim, publication: Publication) -> Published:
        """Publish something new, or in place of what stood at the same path."""

        def work(connection: Connection) -> Published:
            jobs.hold(connection, claim)
            assert claim.collection_id is not None
            owner = owner_for_writer(connection, claim.collection_id, claim.owner)
            old = at_path(connection, claim.collection_id, publication.source_path)
            refuse_duplicate(connection, claim.collection_id, publication.sha256, old)
            if old is None:
                return _insert(connection, claim, owner, publication)
            return _replace(connection, claim, publication, old)

        return self._database.write(work)

    def replace(self, claim: Claim, document_id: int, publication: Publication) -> Published:
        """Give a document another content; its id, collection and tags stay as they are now."""

        def work(connection: Connection) -> Published:
            jobs.hold(connection, claim)
            old = documents.get(connection, document_id)
            owner_for_writer(connection, old.collection_id, claim.owner)
            return _replace(connection, claim, publication, old, keep=("tags", "metadata", "url", "source_path"))

        return self._database.write(work)


def at_path(connection: Connection, collection_id: int, source_path: str | None) -> Document | None:
    """The document that stands at a path; without a path nothing is ever replaced."""
    if source_path is None:
        return None
    identity = _AT_PATH.scalar(connection, {"collection_id": collection_id, "source_path": source_path})
    return None if identity is None else documents.get(connection, identity)


def refuse_duplicate(connection: Connection, collection_id: int, sha256: str, old: Document | None) -> None:
    """The same bytes in the same collection are there already; another version of a path is never a duplicate."""
    if old is not None and old.sha256 != sha256:
        return
    identity = _SAME.scalar(connection, {"collection_id": collection_id, "sha256": sha256})
    if identity is not None:
        raise duplicate(documents.get(connection, identity))


def duplicate(document: Document) -> Duplicate:
    return Duplicate(
        f"The same content is already there as '{document.title}'",
        document_id=document.id,
        document_uid=str(document.uid),
        title=document.title,
        chunk_count=document.chunk_count,
    )


def _content(connection: Connection, claim: Claim, publication: Publication) -> int:
    """The content of the document, complete."""
    content_id = publication.content_id or new_content(connection, claim.id)
    staged = publication.chunk_count - len(publication.last)
    stage(connection, content_id, staged, publication.last, publication.model_id)
    return content_id


def _values(publication: Publication, content_id: int) -> dict[str, Any]:
    return {
        "content_id": content_id,
        "title": publication.title,
        "kind": publication.kind,
        "doc_type": publication.doc_type,
        "filename": publication.filename,
        "source_path": publication.source_path,
        "url": publication.url,
        "sha256": publication.sha256,
        "size_bytes": publication.size_bytes,
        "status": publication.status,
        "method": publication.method,
        "warnings": list(publication.warnings),
        "tags": list(publication.tags),
        "metadata": publication.metadata,
        "language": publication.language,
        "page_count": publication.page_count,
        "chunk_count": publication.chunk_count,
        "updated_at": stamp(),
    }


def _insert(connection: Connection, claim: Claim, owner: int, publication: Publication) -> Published:
    values = _values(publication, _content(connection, claim, publication))
    uid = new_uid()
    values |= {
        "uid": uid,
        "collection_id": claim.collection_id,
        "owner_id": owner,
        "created_at": values["updated_at"],
    }
    identity = _INSERT.insert(connection, values)
    publish_content(connection, values["content_id"], identity)
    documents.write_tags(connection, identity, publication.tags)
    _close(connection, claim, publication, published := Published(identity, uid, None))
    return published


def _replace(
    connection: Connection, claim: Claim, publication: Publication, old: Document, keep: tuple[str, ...] = ()
) -> Published:
    new = _values(publication, _content(connection, claim, publication))
    values = {name: value for name, value in new.items() if name not in keep}
    old_content = connection.execute(select(D.content_id).where(D.id == old.id)).scalar_one()
    connection.execute(update(schema.documents).where(D.id == old.id).values(**values))
    if "tags" not in keep:
        documents.write_tags(connection, old.id, publication.tags)
    publish_content(connection, new["content_id"], old.id)
    replaced = old.sha256 if old.sha256 != publication.sha256 else None
    seq = _close(connection, claim, publication, published := Published(old.id, old.uid, replaced))
    retire_content(connection, old_content, seq)
    traces.clear_replaced(connection, old.id, claim)
    return published


def _close(connection: Connection, claim: Claim, publication: Publication, result: Published) -> int:
    """Log the change and tell the job; answers the number of the change."""
    seq = changes.record(connection, result.document_id)
    jobs.published(
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
