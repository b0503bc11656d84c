"""The one door to the engine. Everything above it knows these verbs and nothing else.

`LocalEngine` answers in this process, `RemoteEngine` over HTTP; the same tests run on both. An engine acts for one
Caller, fixed when it was made, so no verb takes an owner.
"""

from __future__ import annotations

from typing import Protocol

from knowledge.engine.api_accounts import AccountVerbs
from knowledge.engine.api_corpora import CorpusVerbs
from knowledge.model import (
    Answer,
    Caller,
    Chunk,
    Collection,
    CollectionEdit,
    CollectionRef,
    Document,
    DocumentEdit,
    DocumentFilter,
    Finding,
    Job,
    JobFilter,
    NewCollection,
    NewDocument,
    Original,
    Page,
    Query,
    Ref,
    Removed,
    Report,
    Status,
)
from knowledge.model.crawls import Crawl, NewCrawl


class Engine(AccountVerbs, CorpusVerbs, Protocol):
    def as_caller(self, caller: Caller) -> Engine:
        """The same engine as one caller may use it: what is another's looks as if it were not there."""

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> Answer:
        """The passages that answer a question, best first."""

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        """Accept a document and answer its job at once; the same bytes again raise Duplicate."""

    async def update_note(self, ref: Ref, text: str) -> Document:
        """Give a note another text, in one step, and answer it when it can be found."""

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job: ...

    async def jobs(self, wanted: JobFilter) -> Page[Job]: ...

    async def wait(self, ref: Ref, timeout: float, report: Report | None = None) -> Job:
        """The job when it has ended, or as it stands when the time is up."""

    async def cancel(self, ref: Ref) -> Job:
        """Stop a job; what it had done is taken back. A job that has ended raises NotNow."""

    async def retry(self, ref: Ref) -> Job:
        """Queue a failed or cancelled job again, from its kept original."""

    # -- crawls ---------------------------------------------------------------------------------

    async def crawl(self, new: NewCrawl) -> Job:
        """Accept a crawl and answer its job at once; to cancel it keeps the pages that are in already."""

    async def crawl_report(self, ref: Ref) -> Crawl:
        """What became of each address of a crawl, so far or in the end."""

    async def crawls(self, page: int = 1, per_page: int = 50) -> Page[Crawl]:
        """The crawls, newest first, without their pages."""

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document: ...

    async def documents(self, wanted: DocumentFilter) -> Page[Document]: ...

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        """The passages of a document in reading order."""

    async def original(self, ref: Ref) -> Original:
        """The bytes as they came in."""

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        """Change title, address, metadata, tags or collection. Another title embeds the passages again, in a job."""

    async def remove(self, ref: Ref) -> Removed: ...

    async def clear(self) -> Removed:
        """Remove every document that the caller owns."""

    # -- collections ----------------------------------------------------------------------------

    async def collections(self, page: int = 1, per_page: int = 50) -> Page[Collection]: ...

    async def collection(self, ref: CollectionRef) -> Collection: ...

    async def create_collection(self, new: NewCollection) -> Collection: ...

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection: ...

    async def remove_collection(self, ref: CollectionRef) -> Removed:
        """Remove a collection with everything that stands in it."""

    # -- the engine itself ----------------------------------------------------------------------

    async def status(self) -> Status: ...

    async def verify(self) -> list[Finding]:
        """Truth against index against files; an empty list is a clean bill."""

    async def reindex(self, model: str | None = None) -> None:
        """Build the index again from the store and swap it in.

        With a model: make its vectors in the background, while the ones that are there serve, and swap both in then.
        """

    async def backup(self) -> Original:
        """Everything as one archive, of one moment, while others go on reading and writing."""
