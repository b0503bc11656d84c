"""The way of a page from the crawl into the knowledge base: the same pipeline that files take."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from knowledge.engine.ingest.accept import Acceptor, check_document
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.removal import Removal
from knowledge.model import Content, Document, DocumentFilter, DocumentKind, Job, Json, NewFile, Scope
from knowledge.store.crawls.crawls import CrawlStore
from knowledge.store.crawls.site_pages import SitePageStore
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.jobs import JobStore


@dataclass(frozen=True, slots=True)
class FetchedPage:
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


@dataclass(frozen=True, slots=True)
class CrawlStores:
    """What a crawl reads and writes."""

    jobs: JobStore
    documents: DocumentStore
    crawls: CrawlStore
    site_pages: SitePageStore


class PageIngester:
    """Blocking, for worker threads."""

    def __init__(
        self,
        collection_id: int,
        owner: int,
        stores: CrawlStores,
        board: ProgressTracker,
        acceptor: Acceptor,
        removal: Removal,
    ) -> None:
        into = frozenset({collection_id})
        self._collection_id, self._scope = collection_id, Scope(owner, into, into)
        self._jobs, self._documents, self._board = stores.jobs, stores.documents, board
        self._acceptor, self._removal = acceptor, removal

    def queue_page(self, page: FetchedPage, job_uid: UUID) -> Job:
        """Queue the page; Duplicate is raised when these bytes are there already."""
        new = NewFile(
            filename=page.filename,
            content=Content.from_bytes(page.body),
            collection=self._collection_id,
            metadata=page.metadata,
            source_path=page.name,
            url=page.url,
            kind=DocumentKind.PAGE,
            job_uid=job_uid,
        )
        check_document(new)
        return self._acceptor.accept(new, self._acceptor.write_incoming(page.body), self._scope)

    def find_job(self, ref: int | UUID) -> Job:
        return self._jobs.find(ref, self._scope)

    def find_document(self, ref: int) -> Document:
        return self._documents.find(ref, self._scope)

    def find_document_at(self, name: str) -> Document | None:
        """The document that a page of this name is at present."""
        wanted = DocumentFilter(collection=self._collection_id, source_path=name, per_page=1)
        return next(iter(self._documents.page(wanted, self._scope).items), None)

    def remove_document(self, document_id: int) -> None:
        self._removal.remove_document(document_id, self._scope)

    def withdraw_job(self, ref: UUID) -> None:
        """Cancel a page that is still on its way in."""
        job = self.find_job(ref)
        if not job.status.has_ended and not self._removal.cancel_queued(job.id, self._scope):
            self._board.cancel(job.id)
