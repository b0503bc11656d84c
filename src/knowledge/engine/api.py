"""The Engine protocol: everything above the engine uses these verbs and nothing else of it.

`LocalEngine` answers in this process, `RemoteEngine` over HTTP; the same tests run on both. An engine acts for one
Caller, fixed when it was made, so no verb takes an owner.
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
        """Create an account; Forbidden where registration is closed, and for a name in ADMIN_USERS."""

    async def login(self, username: str, password: str) -> IssuedKey:
        """Issue a key that expires; a wrong name and a wrong password raise WrongPassword in the same time."""

    async def find_by_key(self, key: str) -> Caller | None:
        """The account of a key; None if it is unknown, revoked or disabled, ExpiredKey if it has expired."""

    # -- the caller's own account ---------------------------------------------------------------

    async def me(self) -> Account:
        """The caller's account; the local owner has none."""

    async def list_keys(self) -> list[ApiKey]: ...

    async def create_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey: ...

    async def revoke_key(self, key_id: int) -> None: ...

    async def change_password(self, old: str, new: str) -> None:
        """Change the password and revoke the keys of all logins; keys made by hand stay."""

    async def delete_me(self, password: str) -> RemovalResult:
        """Delete the caller's account with everything that it owns."""

    # -- administration: for the local owner and admins -----------------------------------------

    async def list_all(self) -> list[Account]: ...

    async def add(self, username: str, password: str | None = None) -> Account:
        """Create an account, also where registration is closed; without a password it is used by its keys alone.

        Only the operator creates one with a name in ADMIN_USERS.
        """

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        """Issue a key for another account; for the operator alone."""

    async def disable(self, username: str, disabled: bool = True) -> Account:
        """Disable an account or enable it again; what it owns stays."""

    async def remove(self, username: str) -> RemovalResult:
        """Remove an account with everything that it owns."""


class CorporaApi(Protocol):
    async def list_page(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> ResultPage[Collection]:
        """The corpora that the caller may read: own, granted, and public ones that are approved."""

    async def get(self, ref: int) -> Collection:
        """One corpus; public and not yet approved raises CorpusNotApproved, another's private one CorpusNotFound."""

    async def create(self, new: NewCorpus) -> Collection: ...

    async def edit(self, ref: int, edit: CorpusEdit) -> Collection: ...

    async def remove(self, ref: int) -> RemovalResult:
        """Remove a corpus with all its documents."""

    # -- grants: for the owner ------------------------------------------------------------------

    async def list_grants(self, ref: int) -> list[Grant]: ...

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        """Let another account read a corpus, or write to it; a second grant replaces the first."""

    async def revoke_grant(self, ref: int, username: str) -> None: ...

    # -- approval: for the local owner and admins -----------------------------------------------

    async def list_pending(self) -> list[Collection]:
        """Public corpora that wait for approval."""

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
        """The same engine as one caller may use it: what is another's looks as if it were not there."""

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> SearchAnswer:
        """The passages that answer a question, best first."""

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        """Accept a document and answer its job at once; the same bytes again raise Duplicate."""

    async def update_note(self, ref: Ref, text: str) -> Document:
        """Give a note another text, in one step, and answer it when it can be found."""

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job: ...

    async def jobs(self, wanted: JobFilter) -> ResultPage[Job]: ...

    async def wait(self, ref: Ref, timeout: float, report: ReportProgress | None = None) -> Job:
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

    async def crawls(self, page: int = 1, per_page: int = 50) -> ResultPage[Crawl]:
        """The crawls, newest first, without their pages."""

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document: ...

    async def documents(self, wanted: DocumentFilter) -> ResultPage[Document]: ...

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        """The passages of a document in reading order."""

    async def original(self, ref: Ref) -> Original:
        """The bytes as they came in."""

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        """Change title, address, metadata, tags or collection. Another title embeds the passages again, in a job."""

    async def remove(self, ref: Ref) -> RemovalResult: ...

    async def clear(self) -> RemovalResult:
        """Remove every document that the caller owns."""

    # -- collections ----------------------------------------------------------------------------

    async def collections(self, page: int = 1, per_page: int = 50) -> ResultPage[Collection]: ...

    async def collection(self, ref: CollectionRef) -> Collection: ...

    async def create_collection(self, new: NewCollection) -> Collection: ...

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection: ...

    async def remove_collection(self, ref: CollectionRef) -> RemovalResult:
        """Remove a collection with everything that stands in it."""

    # -- the engine itself ----------------------------------------------------------------------

    async def status(self) -> EngineStatus: ...

    async def verify(self) -> list[Finding]:
        """Truth against index against files; an empty list is a clean bill."""

    async def reindex(self, model: str | None = None) -> None:
        """Build the index again from the store and swap it in.

        With a model: make its vectors in the background, while the ones that are there serve, and swap both in then.
        """

    async def backup(self) -> Original:
        """Everything as one archive, of one moment, while others go on reading and writing."""


# -- the formats that every engine of this version reads -------------------------------------------


def find_doc_type(suffix: str) -> str | None:
    """The type of documents with this suffix, such as jpg for '.jpeg'; None if they are not read."""
    from knowledge.extract.formats import FORMATS_BY_SUFFIX  # here, since a process that only forwards needs no formats

    known = FORMATS_BY_SUFFIX.get(suffix)
    return known.doc_type if known else None


def list_doc_types() -> set[str]:
    from knowledge.extract.formats import FORMATS

    return {known.doc_type for known in FORMATS}


def check_suffix(filename: str) -> None:
    """Raise UnsupportedFormat if files of this name are not read."""
    from knowledge.extract import formats

    formats.check_suffix(filename)
