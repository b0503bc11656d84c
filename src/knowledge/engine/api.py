"""The Engine protocol: the only interface that toolsets and surfaces use.

`LocalEngine` implements it in this process, `RemoteEngine` over HTTP; the same tests run on both. An engine acts for
one Caller, so no verb takes an owner.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Protocol

from knowledge.engine.insight.protocol import AgentsApi, InsightApi
from knowledge.engine.oauth.protocol import OAuthApi
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
    Hit,
    IssuedKey,
    Job,
    JobFilter,
    JobStatus,
    NewCollection,
    NewCorpus,
    NewDocument,
    Original,
    Permission,
    Query,
    Ref,
    RemovalResult,
    ReportProgress,
    RereadStatus,
    ResultPage,
    RetryResult,
    SearchAnswer,
)
from knowledge.model.accounts import AccountUsage
from knowledge.model.crawls import Crawl, CrawledPage, NewCrawl, PageOutcome
from knowledge.model.documents import ReviewedPart
from knowledge.model.events import Event
from knowledge.model.library import BatchResult, DocumentSelection
from knowledge.model.maps import MAX_MAP_POINTS, PassageMap
from knowledge.model.pages import DocumentPages, OutlineEntry, PageImage, PageWords, Places
from knowledge.model.sessions import ActiveSession, BrowserSession, IssuedSession
from knowledge.model.suggestions import Suggestion


class AccountsApi(Protocol):
    # -- without a caller -----------------------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        """Create an account; raises Forbidden if registration is closed or the name is in ADMIN_USERS."""

    async def login(self, username: str, password: str) -> IssuedKey:
        """Issue a key that expires; an unknown name and a wrong password raise WrongPassword in the same time."""

    async def is_registration_open(self) -> bool: ...

    async def find_by_key(self, key: str) -> Caller | None:
        """Return the account of a key; None if it is unknown, revoked or disabled; raises ExpiredKey."""

    # -- the caller's own account ---------------------------------------------------------------

    async def me(self) -> Account:
        """Return the caller's account; raises AccountNotFound for the local owner."""

    async def list_keys(self) -> list[ApiKey]: ...

    async def create_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey: ...

    async def rotate_key(self, key_id: int) -> IssuedKey:
        """Give a key a new secret, so that the old one is refused from now on; name and expiry stay."""

    async def revoke_key(self, key_id: int) -> None: ...

    async def usage(self) -> AccountUsage:
        """Return what the caller's account stores, and its quota."""

    async def change_password(self, old: str, new: str) -> None:
        """Change the password, revoke all login keys and end all sessions; API keys that were created stay valid."""

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
        """Disable or enable an account; its documents stay, its browser sessions end."""

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

    async def decline(self, ref: int, reason: str = "") -> Collection:
        """Make a corpus that waits for approval private again, with a reason for its owner."""

    async def revoke_approval(self, ref: int) -> Collection: ...

    async def review(self, ref: int, page: int = 1, per_page: int = 50) -> ResultPage[Document]:
        """List the documents of a corpus that its owner has made public, before or after approval."""

    async def review_chunks(self, ref: int, document: Ref, offset: int = 0, limit: int | None = None) -> ReviewedPart:
        """Return a document of a corpus that its owner has made public, with its chunks in reading order."""


class McpSessionsApi(Protocol):
    """Ids of MCP sessions that stay valid when the server restarts; for the operator alone."""

    async def issue(self, owner: str, protocol_version: str) -> str:
        """Return a new session id for a caller, as `format_caller_id` names it."""

    async def find_version(self, session_id: str, owner: str) -> str | None:
        """Return the protocol version of an id that was issued to this caller and not ended, otherwise None."""

    async def end(self, session_id: str, owner: str) -> None:
        """Refuse an id from now on; the id of another caller is ignored."""


class SessionsApi(Protocol):
    """Sessions of browsers: a token in a cookie that acts for an account or for the operator."""

    # -- for the operator alone: the surface that has a browser in front of it ------------------

    async def open_by_password(self, username: str, password: str, stay: bool, user_agent: str) -> IssuedSession:
        """Open a session of an account; an unknown name and a wrong password raise WrongPassword in the same time."""

    async def open_by_key(self, key: str, stay: bool, user_agent: str) -> IssuedSession:
        """Open a session of the account of an API key, which ends with the key; raises WrongPassword."""

    async def open_for_operator(self, key: str, stay: bool, user_agent: str) -> IssuedSession:
        """Open a session of the operator, whose key the surface has verified."""

    async def find(self, token: str, is_use: bool = True) -> ActiveSession | None:
        """Return the session of a token; None if it has expired, was revoked or is unknown. A use moves its end on."""

    async def end(self, token: str) -> None:
        """End a session; an unknown one is ignored."""

    # -- the caller's own sessions; without an account those of the operator --------------------

    async def list_own(self) -> list[BrowserSession]: ...

    async def revoke(self, session_id: int) -> None: ...

    async def revoke_all(self) -> int:
        """End all sessions and return their number."""

    # -- administration: for the local owner and admins -----------------------------------------

    async def list_of(self, username: str) -> list[BrowserSession]: ...

    async def revoke_of(self, username: str, session_id: int) -> None: ...

    async def revoke_all_of(self, username: str) -> int: ...


class PagesApi(Protocol):
    """Pages of PDFs and images; NoPages is raised for documents of other formats."""

    async def sizes(self, ref: Ref, first: int = 1, last: int | None = None) -> DocumentPages:
        """Return the number of pages and the sizes of at most 500 of them."""

    async def image(self, ref: Ref, page: int, width: int) -> PageImage:
        """Draw a page; raises PageNotFound, InvalidParameter for another width, and Busy."""

    async def thumbnail(self, ref: Ref) -> PageImage:
        """Draw the first page as a small picture."""

    async def words(self, ref: Ref, page: int) -> PageWords:
        """Return the words of a page with their boxes, from its text layer or from OCR."""

    async def places(self, ref: Ref, first: int, last: int) -> Places:
        """Return the boxes of the chunks from first to last; a document without pages has a note instead."""

    async def outline(self, ref: Ref) -> list[OutlineEntry]:
        """Return the headings of a document of any format."""


class MapsApi(Protocol):
    async def read(self, collection: CollectionRef | None = None, limit: int = MAX_MAP_POINTS) -> PassageMap:
        """Return the map of all passages that the caller may read, or of one collection.

        It is made in the background when it is first asked for, and again when more than 5 % has changed.
        """


class LibraryApi(Protocol):
    """Many documents at once, and documents near another one."""

    async def edit_many(self, selection: DocumentSelection, edit: DocumentEdit) -> BatchResult:
        """Change tags and collection of many documents; those that could not be changed are named with the reason."""

    async def remove_many(self, selection: DocumentSelection, confirm: int | None) -> BatchResult:
        """Delete many documents; raises ConfirmationRequired with their number unless `confirm` is that number."""

    async def similar(self, ref: Ref, top: int = 5) -> list[Hit]:
        """Return the nearest passage of each of the documents that are most like this one, nearest first."""


class MaintenanceApi(Protocol):
    """Long work of one server as jobs; NotNow is raised while another one runs on this server."""

    async def verify(self) -> Job:
        """Compare database, index and originals; the findings become the warnings of the job."""

    async def reindex(self) -> Job:
        """Rebuild the index of this server from the store and swap it in."""

    async def backup(self) -> Job:
        """Write an archive of all data into the folder `backups` of the data folder, which keeps the newest three."""

    async def archive(self, ref: Ref) -> Original:
        """Return the archive that a backup job has written; raises FileNotFound."""


class Engine(Protocol):
    @property
    def accounts(self) -> AccountsApi: ...

    @property
    def corpora(self) -> CorporaApi: ...

    @property
    def mcp_sessions(self) -> McpSessionsApi: ...

    @property
    def sessions(self) -> SessionsApi: ...

    @property
    def oauth(self) -> OAuthApi: ...

    @property
    def pages(self) -> PagesApi: ...

    @property
    def agents(self) -> AgentsApi: ...

    @property
    def insight(self) -> InsightApi: ...

    @property
    def maps(self) -> MapsApi: ...

    @property
    def library(self) -> LibraryApi: ...

    @property
    def maintenance(self) -> MaintenanceApi: ...

    def as_caller(self, caller: Caller) -> Engine:
        """Return the engine for a caller; documents that the caller may not read look as if they did not exist."""

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> SearchAnswer:
        """Return the passages that answer a question, best first."""

    async def suggest(self, text: str) -> list[Suggestion]:
        """Return titles, headings, collections and tags that begin with a text, at most eight."""

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        """Accept a document and return its job at once; raises Duplicate for the same bytes."""

    async def update_note(self, ref: Ref, text: str, expected: str | None = None) -> Document:
        """Replace the text of a note atomically, and return it when the new text can be found.

        Raises DocumentChanged if the note has not the expected revision; nothing is written then.
        """

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job: ...

    async def jobs(self, wanted: JobFilter) -> ResultPage[Job]: ...

    async def wait(self, ref: Ref, timeout: float, report: ReportProgress | None = None) -> Job:
        """Wait until a job has ended and return it; after the timeout, return its current state."""

    async def cancel(self, ref: Ref) -> Job:
        """Stop a job and discard its work; raises NotNow if it has ended."""

    async def retry(self, ref: Ref) -> Job:
        """Queue a failed or cancelled job again, with its kept original."""

    async def retry_all(self, status: JobStatus = JobStatus.FAILED) -> RetryResult:
        """Queue all jobs of the caller with this status again; those that cannot be are named with the reason."""

    # -- events ---------------------------------------------------------------------------------

    async def watch(self, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Return what changes from now on, or since the event with this number, as far as the caller may see it.

        Ends with the rights of the caller, which are judged again every few seconds.
        """

    # -- crawls ---------------------------------------------------------------------------------

    async def crawl(self, new: NewCrawl) -> Job:
        """Accept a crawl and return its job at once; cancelling it keeps the pages that were ingested."""

    async def crawl_report(self, ref: Ref) -> Crawl:
        """Return a crawl with the outcome of each URL so far."""

    async def crawls(self, page: int = 1, per_page: int = 50) -> ResultPage[Crawl]:
        """List the crawls, newest first, without their pages."""

    async def crawl_pages(
        self, ref: Ref, outcome: PageOutcome | None = None, page: int = 1, per_page: int = 50
    ) -> ResultPage[CrawledPage]:
        """List the addresses of a crawl that are done, in the order in which they were found."""

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document: ...

    async def documents(self, wanted: DocumentFilter) -> ResultPage[Document]: ...

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        """List the chunks of a document in reading order."""

    async def original(self, ref: Ref, start: int = 0, stop: int | None = None) -> Original:
        """Return the bytes of a document as they were added, all or those from start to before stop."""

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

    async def check_ready(self) -> None:
        """Raise Starting if the index of this server has not caught up, so that requests go to another server."""

    async def verify(self) -> list[Finding]:
        """Compare database, index and originals; an empty list means that no difference was found."""

    async def reindex(self, model: str | None = None) -> None:
        """Rebuild the index from the store and swap it in.

        With a model, its vectors are made in the background while the old ones serve, and both are swapped in together.
        """

    async def reread(self, start: bool = True) -> RereadStatus:
        """Queue a job for each document that an older version read without boxes of words or lines of code.

        The jobs of scans and images add the boxes and change nothing else; those of source code replace the chunks.
        Without `start`, nothing is queued.
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


def list_formats() -> list[tuple[str, tuple[str, ...]]]:
    """Return the document types that can be added, each with its suffixes."""
    from knowledge.extract.formats import FORMATS

    return [(known.doc_type, known.suffixes) for known in FORMATS]


def check_suffix(filename: str) -> None:
    """Raise UnsupportedFormat if the suffix of a file name is not supported."""
    from knowledge.extract import formats

    formats.check_suffix(filename)
