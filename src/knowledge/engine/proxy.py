"""Every verb of the door, passed on. Whoever stands before an engine says only to whom."""

from __future__ import annotations

from abc import (
    ABC,
    abstractmethod,
)
from collections.abc import (
    Awaitable,
    Callable,
)
from datetime import (
    datetime,
)
from typing import (
    TYPE_CHECKING,
    TypeVar,
)

from knowledge.model import (
    Account,
    Answer,
    ApiKey,
    Caller,
    Chunk,
    Collection,
    CollectionEdit,
    CollectionRef,
    CorpusEdit,
    Document,
    DocumentEdit,
    DocumentFilter,
    Finding,
    Grant,
    IssuedKey,
    Job,
    JobFilter,
    NewCollection,
    NewCorpus,
    NewDocument,
    Original,
    Page,
    Permission,
    Query,
    Ref,
    Removed,
    Report,
    Status,
)
from knowledge.model.crawls import (
    Crawl,
    NewCrawl,
)

if TYPE_CHECKING:
    from knowledge.engine.api import Engine


T = TypeVar("T")


class Asking(ABC):
    """`_ask` hands a verb to whichever engine shall answer it."""

    @abstractmethod
    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T: ...

    async def _ask_as_admin(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """For the verbs that only the local owner and admins may use."""
        return await self._ask(verb)

    async def _ask_as_operator(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """For the verbs that only the local owner may use."""
        return await self._ask(verb)


class AccountRelay(Asking):
    async def register(self, username: str, password: str) -> Account:
        return await self._ask(lambda engine: engine.register(username, password))

    async def login(self, username: str, password: str) -> IssuedKey:
        return await self._ask(lambda engine: engine.login(username, password))

    async def account_of(self, key: str) -> Caller | None:
        return await self._ask(lambda engine: engine.account_of(key))

    async def account(self) -> Account:
        return await self._ask(lambda engine: engine.account())

    async def api_keys(self) -> list[ApiKey]:
        return await self._ask(lambda engine: engine.api_keys())

    async def create_api_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey:
        return await self._ask(lambda engine: engine.create_api_key(name, expires_at))

    async def revoke_api_key(self, key_id: int) -> None:
        return await self._ask(lambda engine: engine.revoke_api_key(key_id))

    async def change_password(self, old: str, new: str) -> None:
        return await self._ask(lambda engine: engine.change_password(old, new))

    async def delete_account(self, password: str) -> Removed:
        return await self._ask(lambda engine: engine.delete_account(password))

    # -- looking after the others ---------------------------------------------------------------

    async def accounts(self) -> list[Account]:
        return await self._ask_as_admin(lambda engine: engine.accounts())

    async def add_account(self, username: str, password: str | None = None) -> Account:
        return await self._ask_as_admin(lambda engine: engine.add_account(username, password))

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        return await self._ask_as_operator(lambda engine: engine.issue_key(username, name, expires_at))

    async def disable_account(self, username: str, disabled: bool = True) -> Account:
        return await self._ask_as_admin(lambda engine: engine.disable_account(username, disabled))

    async def remove_account(self, username: str) -> Removed:
        return await self._ask_as_admin(lambda engine: engine.remove_account(username))


class CorpusRelay(Asking):
    async def corpora(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> Page[Collection]:
        return await self._ask(lambda engine: engine.corpora(category, approved_only, page, per_page))

    async def corpus(self, ref: int) -> Collection:
        return await self._ask(lambda engine: engine.corpus(ref))

    async def create_corpus(self, new: NewCorpus) -> Collection:
        return await self._ask(lambda engine: engine.create_corpus(new))

    async def edit_corpus(self, ref: int, edit: CorpusEdit) -> Collection:
        return await self._ask(lambda engine: engine.edit_corpus(ref, edit))

    async def remove_corpus(self, ref: int) -> Removed:
        return await self._ask(lambda engine: engine.remove_corpus(ref))

    async def grants(self, ref: int) -> list[Grant]:
        return await self._ask(lambda engine: engine.grants(ref))

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        return await self._ask(lambda engine: engine.grant(ref, username, permission))

    async def revoke_grant(self, ref: int, username: str) -> None:
        return await self._ask(lambda engine: engine.revoke_grant(ref, username))

    # -- approval -------------------------------------------------------------------------------

    async def pending_corpora(self) -> list[Collection]:
        return await self._ask_as_admin(lambda engine: engine.pending_corpora())

    async def approve_corpus(self, ref: int) -> Collection:
        return await self._ask_as_admin(lambda engine: engine.approve_corpus(ref))

    async def revoke_approval(self, ref: int) -> Collection:
        return await self._ask_as_admin(lambda engine: engine.revoke_approval(ref))


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
