"""Every verb of the door, passed on. Whoever stands before an engine says only to whom."""

from __future__ import annotations

from knowledge.engine.relay_accounts import AccountRelay
from knowledge.engine.relay_corpora import CorpusRelay
from knowledge.model import (
    Answer,
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


class Relay(AccountRelay, CorpusRelay):
    async def search(self, query: Query) -> Answer:
        return await self._ask(lambda engine: engine.search(query))

    async def add(self, new: NewDocument) -> Job:
        return await self._ask(lambda engine: engine.add(new))

    async def update_note(self, ref: Ref, text: str) -> Document:
        return await self._ask(lambda engine: engine.update_note(ref, text))

    async def job(self, ref: Ref) -> Job:
        return await self._ask(lambda engine: engine.job(ref))

    async def jobs(self, wanted: JobFilter) -> Page[Job]:
        return await self._ask(lambda engine: engine.jobs(wanted))

    async def wait(self, ref: Ref, timeout: float, report: Report | None = None) -> Job:
        return await self._ask(lambda engine: engine.wait(ref, timeout, report))

    async def cancel(self, ref: Ref) -> Job:
        return await self._ask(lambda engine: engine.cancel(ref))

    async def retry(self, ref: Ref) -> Job:
        return await self._ask(lambda engine: engine.retry(ref))

    async def crawl(self, new: NewCrawl) -> Job:
        return await self._ask(lambda engine: engine.crawl(new))

    async def crawl_report(self, ref: Ref) -> Crawl:
        return await self._ask(lambda engine: engine.crawl_report(ref))

    async def crawls(self, page: int = 1, per_page: int = 50) -> Page[Crawl]:
        return await self._ask(lambda engine: engine.crawls(page, per_page))

    async def document(self, ref: Ref) -> Document:
        return await self._ask(lambda engine: engine.document(ref))

    async def documents(self, wanted: DocumentFilter) -> Page[Document]:
        return await self._ask(lambda engine: engine.documents(wanted))

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        return await self._ask(lambda engine: engine.chunks(ref, offset, limit))

    async def original(self, ref: Ref) -> Original:
        return await self._ask(lambda engine: engine.original(ref))

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        return await self._ask(lambda engine: engine.edit(ref, edit))

    async def remove(self, ref: Ref) -> Removed:
        return await self._ask(lambda engine: engine.remove(ref))

    async def clear(self) -> Removed:
        return await self._ask(lambda engine: engine.clear())

    async def collections(self, page: int = 1, per_page: int = 50) -> Page[Collection]:
        return await self._ask(lambda engine: engine.collections(page, per_page))

    async def collection(self, ref: CollectionRef) -> Collection:
        return await self._ask(lambda engine: engine.collection(ref))

    async def create_collection(self, new: NewCollection) -> Collection:
        return await self._ask(lambda engine: engine.create_collection(new))

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection:
        return await self._ask(lambda engine: engine.edit_collection(ref, edit))

    async def remove_collection(self, ref: CollectionRef) -> Removed:
        return await self._ask(lambda engine: engine.remove_collection(ref))

    async def status(self) -> Status:
        return await self._ask(lambda engine: engine.status())

    async def verify(self) -> list[Finding]:
        return await self._ask_as_admin(lambda engine: engine.verify())

    async def reindex(self, model: str | None = None) -> None:
        """With another model it is the operator's: that model's service would be sent every text there is."""
        ask = self._ask_as_admin if model is None else self._ask_as_operator
        return await ask(lambda engine: engine.reindex(model))

    async def backup(self) -> Original:
        return await self._ask_as_operator(lambda engine: engine.backup())
