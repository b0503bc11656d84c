"""The way of a page from the crawl into the knowledge base: the same pipeline that files take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from knowledge.engine.ingest import accept
from knowledge.model import Content, Document, DocumentFilter, Job, Json, Kind, NewFile, Scope

if TYPE_CHECKING:
    from knowledge.engine.runtime import Parts


@dataclass(frozen=True, slots=True)
class Found:
    """A page that was fetched and is fit to be taken in."""

    url: str
    name: str
    """The one address that it is known by."""
    filename: str
    body: bytes = field(repr=False)
    etag: str | None = None
    last_modified: str | None = None
    links: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)


class Taker:
    """Blocking, for worker threads."""

    def __init__(self, parts: Parts, collection_id: int, owner: int) -> None:
        into = frozenset({collection_id})
        self._parts, self._collection_id, self._scope = parts, collection_id, Scope(owner, into, into)

    def take(self, found: Found, job_uid: UUID) -> Job:
        """Queue the page; Duplicate is raised when these bytes are there already."""
        new = NewFile(
            filename=found.filename,
            content=Content.of(found.body),
            collection=self._collection_id,
            metadata=found.metadata,
            source_path=found.name,
            url=found.url,
            kind=Kind.PAGE,
            job_uid=job_uid,
        )
        accept.check(new)
        incoming = self._parts.files.incoming(self._parts.options.max_file_bytes)
        try:
            incoming.write(found.body)
        except BaseException:
            incoming.discard()
            raise
        return accept.accept(self._parts, new, incoming, self._scope)

    def job(self, ref: int | UUID) -> Job:
        return self._parts.jobs.find(ref, self._scope)

    def document(self, ref: int) -> Document:
        return self._parts.documents.find(ref, self._scope)

    def at(self, name: str) -> Document | None:
        """The document that a page of this name is at present."""
        wanted = DocumentFilter(collection=self._collection_id, source_path=name, per_page=1)
        return next(iter(self._parts.documents.page(wanted, self._scope).items), None)

    def remove(self, document_id: int) -> None:
        parts = self._parts
        _, free = parts.documents.remove(document_id, self._scope)
        for sha256 in free:
            parts.files.discard(sha256, parts.documents.names)
        parts.indexer.wake()

    def withdraw(self, ref: UUID) -> None:
        """Cancel a page that is still on its way in."""
        parts = self._parts
        job = self.job(ref)
        if job.status.ended:
            return
        kept = parts.jobs.kept(job.id, self._scope)
        if parts.jobs.cancel_queued(job.id):
            parts.board.tell(job.id)
            if kept is not None:
                parts.files.discard(kept, parts.documents.names)
        else:
            parts.board.cancel(job.id)
