"""Hands crawled pages to the same ingest pipeline that files use."""

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
    """A fetched page that can be ingested."""

    url: str
    name: str
    """Its canonical URL, which identifies the page across crawls."""
    filename: str
    body: bytes = field(repr=False)
    etag: str | None = None
    last_modified: str | None = None
    links: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CrawlStores:
    """The stores that a crawl uses."""

    jobs: JobStore
    documents: DocumentStore
    crawls: CrawlStore
    site_pages: SitePageStore


class PageIngester:
    """Queues, finds and removes the documents of one crawl; blocking, for worker threads."""

    def __init__(
        self,
        collection_id: int,
        owner: int,
        stores: CrawlStores,
        progress: ProgressTracker,
        acceptor: Acceptor,
        removal: Removal,
    ) -> None:
        into = frozenset({collection_id})
        self._collection_id, self._scope = collection_id, Scope(owner, into, into)
        self._jobs, self._documents, self._progress = stores.jobs, stores.documents, progress
        self._acceptor, self._removal = acceptor, removal

    def queue_page(self, page: FetchedPage, job_uid: UUID) -> Job:
        """Queue the page; raises Duplicate if the collection has a document with the same bytes."""
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
        """Return the document that is stored under this canonical URL."""
        wanted = DocumentFilter(collection=self._collection_id, source_path=name, per_page=1)
        return next(iter(self._documents.page(wanted, self._scope).items), None)

    def remove_document(self, document_id: int) -> None:
        self._removal.remove_document(document_id, self._scope)

    def withdraw_job(self, ref: UUID) -> None:
        """Cancel the job of a page unless it has ended."""
        job = self.find_job(ref)
        if not job.status.has_ended and not self._removal.cancel_job(job.id, self._scope):
            self._removal.cancel_running(job.id)
