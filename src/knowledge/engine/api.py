"""The Engine protocol: the only interface that toolsets and surfaces use.

`LocalEngine` implements it in this process, `RemoteEngine` over HTTP; the same tests run on both. An engine acts for
one Caller, so no verb takes an owner.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from knowledge.model import (
    Account,
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
    EngineStatus,
    Finding,
    Grant,
    IssuedKey,
    Job,
    JobFilter,
    NewCollection,
    NewCorpus,
    NewDocument,
    Original,
    Permission,
    Query,
    Ref,
    RemovalResult,
    ReportProgress,
    ResultPage,
    SearchAnswer,
)
from knowledge.model.crawls import Crawl, NewCrawl


class AccountsApi(Protocol):
    # -- without a caller -----------------------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        """Create an account; raises Forbidden if registration is closed or the name is in ADMIN_USERS."""

    async def login(self, username: str, password: str) -> IssuedKey:
        """Issue a key that expires; an unknown name and a wrong password raise WrongPassword in the same time."""

    async def find_by_key(self, key: str) -> Caller | None:
        """Return the account of a key; None if it is unknown, revoked or disabled; raises ExpiredKey."""

    # -- the caller's own account ---------------------------------------------------------------

    async def me(self) -> Account:
        """Return the caller's account; raises AccountNotFound for the local owner."""

    async def list_keys(self) -> list[ApiKey]: ...

    async def create_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey: ...

    async def revoke_key(self, key_id: int) -> None: ...

    async def change_password(self, old: str, new: str) -> None:
        """Change the password and revoke all login keys; API keys that were created stay valid."""

    async def delete_me(self, password: str) -> RemovalResult:
        """Delete the caller's account with everything that it owns."""

    # -- administration: for the local owner and admins -----------------------------------------

    async def list_all(self) -> list[Account]: ...

    async def add(self, username: str, password: str | None = None) -> Account:
        """Create an account, also if registration is closed; without a password it can only be used with API keys.

        Only the operator may use a name in ADMIN_USERS.
        """

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        """Issue a key for another account; for the operator only."""

    async def disable(self, username: str, disabled: bool = True) -> Account:
        """Disable or enable an account; its documents stay."""

    async def remove(self, username: str) -> RemovalResult:
        """Remove an account with everything that it owns."""


class CorporaApi(Protocol):
    async def list_page(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> ResultPage[Collection]:
        """List the corpora that the caller may read: own, granted, and approved public ones."""

    async def get(self, ref: int) -> Collection:
        """Return a corpus; raises CorpusNotApproved if it is public and pending, CorpusNotFound if not readable."""

    async def create(self, new: NewCorpus) -> Collection: ...

    async def edit(self, ref: int, edit: CorpusEdit) -> Collection: ...

    async def remove(self, ref: int) -> RemovalResult:
        """Remove a corpus with all its documents."""

    # -- grants: for the owner ------------------------------------------------------------------

    async def list_grants(self, ref: int) -> list[Grant]: ...

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        """Grant another account read or write access; a second grant replaces the first."""

    async def revoke_grant(self, ref: int, username: str) -> None: ...

    # -- approval: for the local owner and admins -----------------------------------------------

    async def list_pending(self) -> list[Collection]:
        """List the public corpora that wait for approval."""

    async def approve(self, ref: int) -> Collection: ...

    async def revoke_approval(self, ref: int) -> Collection: ...


class McpSessionsApi(Protocol):
    """Ids of MCP sessions that stay valid when the server restarts; for the operator alone."""

    async def issue(self, owner: str, protocol_version: str) -> str:
        """Return a new session id for a caller, as `format_caller_id` names it."""

    async def find_version(self, session_id: str, owner: str) -> str | None:
        """Return the protocol version of an id that was issued to this caller and not ended, otherwise None."""

    async def end(self, session_id: str, owner: str) -> None:
        """Refuse an id from now on; the id of another caller is ignored."""


class Engine(Protocol):
    @property
    def accounts(self) -> AccountsApi: ...

    @property
    def corpora(self) -> CorporaApi: ...

    @property
    def mcp_sessions(self) -> McpSessionsApi: ...

    def as_caller(self, caller: Caller) -> Engine:
        """Return the engine for a caller; documents that the caller may not read look as if they did not exist."""

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> SearchAnswer:
        """Return the passages that answer a question, best first."""

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        """Accept a document and return its job at once; raises Duplicate for the same bytes."""

    async def update_note(self, ref: Ref, text: str) -> Document:
        """Replace the text of a note atomically, and return it when the new text can be found."""

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job: ...

    async def jobs(self, wanted: JobFilter) -> ResultPage[Job]: ...

    async def wait(self, ref: Ref, timeout: float, report: ReportProgress | None = None) -> Job:
        """Wait until a job has ended and return it; after the timeout, return its current state."""

    async def cancel(self, ref: Ref) -> Job:
        """Stop a job and discard its work; raises NotNow if it has ended."""

    async def retry(self, ref: Ref) -> Job:
        """Queue a failed or cancelled job again, with its kept original."""

    # -- crawls ---------------------------------------------------------------------------------

    async def crawl(self, new: NewCrawl) -> Job:
        """Accept a crawl and return its job at once; cancelling it keeps the pages that were ingested."""

    async def crawl_report(self, ref: Ref) -> Crawl:
        """Return a crawl with the outcome of each URL so far."""

    async def crawls(self, page: int = 1, per_page: int = 50) -> ResultPage[Crawl]:
        """List the crawls, newest first, without their pages."""

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document: ...

    async def documents(self, wanted: DocumentFilter) -> ResultPage[Document]: ...

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        """List the chunks of a document in reading order."""

    async def original(self, ref: Ref) -> Original:
        """Return the bytes of a document as they were added."""

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        """Change title, URL, metadata, tags or collection; a new title queues a job that embeds the chunks again."""

    async def remove(self, ref: Ref) -> RemovalResult: ...

    async def clear(self) -> RemovalResult:
        """Remove every document that the caller owns."""

    # -- collections ----------------------------------------------------------------------------

    async def collections(self, page: int = 1, per_page: int = 50) -> ResultPage[Collection]: ...

    async def collection(self, ref: CollectionRef) -> Collection: ...

    async def create_collection(self, new: NewCollection) -> Collection: ...

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection: ...

    async def remove_collection(self, ref: CollectionRef) -> RemovalResult:
        """Remove a collection with all its documents."""

    # -- the engine itself ----------------------------------------------------------------------

    async def status(self) -> EngineStatus: ...

    async def verify(self) -> list[Finding]:
        """Compare database, index and originals; an empty list means that no difference was found."""

    async def reindex(self, model: str | None = None) -> None:
        """Rebuild the index from the store and swap it in.

        With a model, its vectors are made in the background while the old ones serve, and both are swapped in together.
        """

    async def backup(self) -> Original:
        """Return a consistent snapshot of all data as one archive; reads and writes continue."""


# -- formats that every engine of this version supports --------------------------------------------


def find_doc_type(suffix: str) -> str | None:
    """Return the document type of a suffix, such as jpg for '.jpeg'; None if it is not supported."""
    from knowledge.extract.formats import FORMATS_BY_SUFFIX  # lazy: a process with a remote engine needs no formats

    known = FORMATS_BY_SUFFIX.get(suffix)
    return known.doc_type if known else None


def list_doc_types() -> set[str]:
    from knowledge.extract.formats import FORMATS

    return {known.doc_type for known in FORMATS}


def check_suffix(filename: str) -> None:
    """Raise UnsupportedFormat if the suffix of a file name is not supported."""
    from knowledge.extract import formats

    formats.check_suffix(filename)
