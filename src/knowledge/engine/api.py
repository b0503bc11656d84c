"""The one door to the engine. Everything above it knows these verbs and nothing else.

`LocalEngine` answers in this process, `RemoteEngine` over HTTP; the same tests run on both. An engine acts for one
Caller, fixed when it was made, so no verb takes an owner.
"""

from __future__ import annotations

from datetime import (
    datetime,
)
from typing import (
    Protocol,
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


class AccountVerbs(Protocol):
    # -- coming in: no caller is needed ---------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        """Make an account for whoever asks; Forbidden where registration is closed, and for a name in ADMIN_USERS."""

    async def login(self, username: str, password: str) -> IssuedKey:
        """A new key that expires, for a name and its password; both wrong ones raise WrongPassword in the same time."""

    async def account_of(self, key: str) -> Caller | None:
        """Who bears a key; None for one that is unknown, revoked or disabled, ExpiredKey for one that has been good."""

    # -- one's own account ----------------------------------------------------------------------

    async def account(self) -> Account:
        """Whoever asks; the local owner has no account."""

    async def api_keys(self) -> list[ApiKey]: ...

    async def create_api_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey: ...

    async def revoke_api_key(self, key_id: int) -> None: ...

    async def change_password(self, old: str, new: str) -> None:
        """Change the password and revoke the keys of all logins; keys made by hand stay."""

    async def delete_account(self, password: str) -> Removed:
        """Delete the caller's account with everything that it owns."""

    # -- looking after the others: the local owner and admins -----------------------------------

    async def accounts(self) -> list[Account]: ...

    async def add_account(self, username: str, password: str | None = None) -> Account:
        """Make an account, also where registration is closed; without a password it lives by its keys alone.

        Only the operator makes one with a name in ADMIN_USERS.
        """

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        """A key for somebody else, which is for the operator alone."""

    async def disable_account(self, username: str, disabled: bool = True) -> Account:
        """Let an account in no more, or again; what it owns stays."""

    async def remove_account(self, username: str) -> Removed:
        """Remove an account with everything that it owns."""


class CorpusVerbs(Protocol):
    async def corpora(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> Page[Collection]:
        """The corpora that the caller may read: own, granted, and public ones that are approved."""

    async def corpus(self, ref: int) -> Collection:
        """One corpus; public and not yet approved raises CorpusNotApproved, another's private one CorpusNotFound."""

    async def create_corpus(self, new: NewCorpus) -> Collection: ...

    async def edit_corpus(self, ref: int, edit: CorpusEdit) -> Collection: ...

    async def remove_corpus(self, ref: int) -> Removed:
        """Remove a corpus with everything that stands in it."""

    # -- grants: the owner's --------------------------------------------------------------------

    async def grants(self, ref: int) -> list[Grant]: ...

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        """Let another account read a corpus, or write to it; a second grant takes the place of the first."""

    async def revoke_grant(self, ref: int, username: str) -> None: ...

    # -- approval: the local owner's and the admins' --------------------------------------------

    async def pending_corpora(self) -> list[Collection]:
        """Public corpora that wait for approval."""

    async def approve_corpus(self, ref: int) -> Collection: ...

    async def revoke_approval(self, ref: int) -> Collection: ...


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
