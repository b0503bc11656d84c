"""The Engine protocol over HTTP: every verb calls /api/v1, and errors are raised as their original class."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from knowledge import wire
from knowledge.engine.remote.corpora import RemoteCorpora
from knowledge.engine.remote.http import LONG_TIMEOUTS, EngineClient, open_http_client
from knowledge.engine.remote.insight import RemoteAgents, RemoteInsight
from knowledge.engine.remote.library import RemoteLibrary, RemoteMaintenance, RemoteMaps
from knowledge.engine.remote.oauth import RemoteOAuth
from knowledge.engine.remote.sessions import RemoteSessions
from knowledge.errors import ExpiredKey, Unauthenticated
from knowledge.model import (
    Account,
    ApiKey,
    Caller,
    CallerKind,
    Chunk,
    Collection,
    CollectionEdit,
    CollectionRef,
    Document,
    DocumentEdit,
    DocumentFilter,
    EngineStatus,
    Finding,
    IssuedKey,
    Job,
    JobFilter,
    JobStatus,
    Json,
    NewCollection,
    NewDocument,
    NewFile,
    Original,
    Query,
    Ref,
    RemovalResult,
    ReportProgress,
    RereadStatus,
    ResultPage,
    RetryResult,
    SearchAnswer,
)
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX, AccountUsage
from knowledge.model.crawls import Crawl, CrawledPage, NewCrawl, PageOutcome
from knowledge.model.events import Event
from knowledge.model.pages import DocumentPages, OutlineEntry, PageImage, PageWords, Places
from knowledge.model.suggestions import Suggestion
from knowledge.wire.accounts import AccountsShape, ApiKeysShape, IssuedKeyShape, UsageShape, dump_new_key
from knowledge.wire.events import EventParser
from knowledge.wire.mcp_sessions import IssuedMcpSession, McpSessionVersion
from knowledge.wire.pages import OutlineShape
from knowledge.wire.sessions import RegistrationShape

if TYPE_CHECKING:
    import httpx


class RemoteAccounts:
    def __init__(self, http: httpx.AsyncClient, client: EngineClient) -> None:
        self._http, self._client = http, client

    # -- without a caller -------------------------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        return await self._client.call(Account, "POST", "/user/register", json=_dump_credentials(username, password))

    async def login(self, username: str, password: str) -> IssuedKey:
        found = await self._client.call(
            IssuedKeyShape, "POST", "/user/login", json=_dump_credentials(username, password)
        )
        return found.to_issued()

    async def is_registration_open(self) -> bool:
        return (await self._client.call(RegistrationShape, "GET", "/session", idempotent=True)).registration_open

    async def find_by_key(self, key: str) -> Caller | None:
        """Authenticate a key by a request that carries it."""
        if not key.startswith(ACCOUNT_KEY_PREFIX):
            return None
        try:
            found = await EngineClient(self._http, key).call(Account, "GET", "/user", idempotent=True)
        except ExpiredKey:
            raise
        except Unauthenticated:
            return None
        return Caller(CallerKind.ACCOUNT, found.id, found.username, key, found.is_admin)

    # -- the caller's own account -----------------------------------------------------------------

    async def me(self) -> Account:
        return await self._client.call(Account, "GET", "/user", idempotent=True)

    async def list_keys(self) -> list[ApiKey]:
        found = await self._client.call(ApiKeysShape, "GET", "/user/api-keys", idempotent=True)
        return list(found.api_keys)

    async def create_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey:
        body = dump_new_key(name, expires_at)
        found = await self._client.call(IssuedKeyShape, "POST", "/user/api-keys", json=body)
        return found.to_issued()

    async def rotate_key(self, key_id: int) -> IssuedKey:
        return (await self._client.call(IssuedKeyShape, "POST", f"/user/api-keys/{key_id}/rotate")).to_issued()

    async def usage(self) -> AccountUsage:
        return (await self._client.call(UsageShape, "GET", "/user/usage", idempotent=True)).to_usage()

    async def revoke_key(self, key_id: int) -> None:
        await self._client.call(object, "DELETE", f"/user/api-keys/{key_id}")

    async def change_password(self, old: str, new: str) -> None:
        body: Json = {"old_password": old, "new_password": new}
        await self._client.call(object, "PUT", "/user/password", json=body)

    async def delete_me(self, password: str) -> RemovalResult:
        return await self._client.call(
            RemovalResult, "DELETE", "/user", json={"password": password}, timeout=LONG_TIMEOUTS
        )

    # -- administration ---------------------------------------------------------------------------

    async def list_all(self) -> list[Account]:
        found = await self._client.call(AccountsShape, "GET", "/admin/users", idempotent=True)
        return list(found.accounts)

    async def add(self, username: str, password: str | None = None) -> Account:
        return await self._client.call(Account, "POST", "/admin/users", json=_dump_credentials(username, password))

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        body = dump_new_key(name, expires_at)
        found = await self._client.call(IssuedKeyShape, "POST", f"{_account_path(username)}/api-keys", json=body)
        return found.to_issued()

    async def disable(self, username: str, disabled: bool = True) -> Account:
        return await self._client.call(Account, "PATCH", _account_path(username), json={"is_disabled": disabled})

    async def remove(self, username: str) -> RemovalResult:
        return await self._client.call(RemovalResult, "DELETE", _account_path(username), timeout=LONG_TIMEOUTS)


def _dump_credentials(username: str, password: str | None) -> Json:
    return {"username": username, "password": password}


def _account_path(username: str) -> str:
    return f"/admin/users/{quote(username, safe='')}"


class RemoteMcpSessions:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def issue(self, owner: str, protocol_version: str) -> str:
        body: Json = {"owner": owner, "protocol_version": protocol_version}
        found = await self._client.call(IssuedMcpSession, "POST", "/admin/mcp-sessions", json=body, idempotent=True)
        return found.session_id

    async def find_version(self, session_id: str, owner: str) -> str | None:
        body: Json = {"session_id": session_id, "owner": owner}
        path = "/admin/mcp-sessions/check"
        return (await self._client.call(McpSessionVersion, "POST", path, json=body, idempotent=True)).protocol_version

    async def end(self, session_id: str, owner: str) -> None:
        body: Json = {"session_id": session_id, "owner": owner}
        await self._client.call(object, "POST", "/admin/mcp-sessions/end", json=body, idempotent=True)


async def parse_events(lines: AsyncGenerator[str, None]) -> AsyncGenerator[Event, None]:
    parser = EventParser()
    async with aclosing(lines):
        async for line in lines:
            if (event := parser.parse_line(line)) is not None:
                yield event


FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 1.0


class RemotePages:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def sizes(self, ref: Ref, first: int = 1, last: int | None = None) -> DocumentPages:
        params = {"from": str(first)} | ({} if last is None else {"to": str(last)})
        return await self._client.call(DocumentPages, "GET", f"/documents/{ref}/pages", params=params, idempotent=True)

    async def image(self, ref: Ref, page: int, width: int) -> PageImage:
        return await self._read_image(f"/documents/{ref}/pages/{page}", {"width": str(width)})

    async def thumbnail(self, ref: Ref) -> PageImage:
        return await self._read_image(f"/documents/{ref}/thumbnail", {})

    async def words(self, ref: Ref, page: int) -> PageWords:
        return await self._client.call(PageWords, "GET", f"/documents/{ref}/pages/{page}/words", idempotent=True)

    async def places(self, ref: Ref, first: int, last: int) -> Places:
        params = {"from": str(first), "to": str(last)}
        return await self._client.call(Places, "GET", f"/documents/{ref}/places", params=params, idempotent=True)

    async def outline(self, ref: Ref) -> list[OutlineEntry]:
        found = await self._client.call(OutlineShape, "GET", f"/documents/{ref}/outline", idempotent=True)
        return [*found.outline]

    async def _read_image(self, path: str, params: dict[str, str]) -> PageImage:
        data, etag = await self._client.read_content(path, params, "image/webp")
        return PageImage(data, etag)


class RemoteEngine:
    """An engine in another process; idempotent requests are repeated once when the connection fails."""

    def __init__(self, http: httpx.AsyncClient, key: str | None = None, session: str | None = None) -> None:
        self._http = http
        self._client = EngineClient(http, key, session)
        self.accounts = RemoteAccounts(http, self._client)
        self.corpora = RemoteCorpora(self._client)
        self.mcp_sessions = RemoteMcpSessions(self._client)
        self.sessions = RemoteSessions(self._client)
        self.oauth = RemoteOAuth(self._client)
        self.pages = RemotePages(self._client)
        self.library = RemoteLibrary(self._client)
        self.maintenance = RemoteMaintenance(self._client)
        self.agents = RemoteAgents(self._client)
        self.insight = RemoteInsight(self._client)
        self.maps = RemoteMaps(self._client)

    def with_key(self, key: str) -> RemoteEngine:
        """Return the same engine with another API key, over the same connections."""
        return RemoteEngine(self._http, key)

    def as_caller(self, caller: Caller) -> RemoteEngine:
        """Return the engine with the caller's own key, session or access token, or unchanged for a caller without."""
        if caller.session is not None or caller.token is not None:
            return RemoteEngine(self._http, session=caller.session or caller.token)
        return self.with_key(caller.key) if caller.key is not None else self

    async def admit(self, caller: Caller, _verb: str) -> RemoteEngine:
        """Return the engine for this caller; the server checks the permission for the verb."""
        return self.as_caller(caller)

    async def close(self) -> None:
        await self._http.aclose()

    # -- finding --------------------------------------------------------------------------------

    async def search(self, query: Query) -> SearchAnswer:
        found = await self._client.call(
            wire.AnswerShape, "POST", "/search", json=wire.dump_query(query), idempotent=True
        )
        return found.to_answer()

    async def suggest(self, text: str) -> list[Suggestion]:
        found = await self._client.call(wire.SuggestionsShape, "GET", "/suggest", params={"q": text}, idempotent=True)
        return [*found.suggestions]

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> Job:
        if isinstance(new, NewFile):
            return await self._client.upload_file(Job, "/jobs", new)
        return await self._client.call(Job, "POST", "/jobs", json=wire.dump_note(new), idempotent=True)

    async def update_note(self, ref: Ref, text: str, expected: str | None = None) -> Document:
        body: Json = {"text": text}
        found = await self._client.call(
            wire.DocumentShape, "PATCH", f"/notes/{ref}", json=body, timeout=LONG_TIMEOUTS, expected=expected
        )
        return found.to_document()

    # -- jobs -----------------------------------------------------------------------------------

    async def job(self, ref: Ref) -> Job:
        return await self._client.call(Job, "GET", f"/jobs/{ref}", idempotent=True)

    async def jobs(self, wanted: JobFilter) -> ResultPage[Job]:
        params = wire.dump_job_filter(wanted)
        found = await self._client.call(wire.JobsShape, "GET", "/jobs", params=params, idempotent=True)
        return found.to_page()

    async def wait(self, ref: Ref, timeout: float, report: ReportProgress | None = None) -> Job:
        deadline, pause = time.monotonic() + timeout, FIRST_POLL_SECONDS
        while True:
            job = await self.job(ref)
            if report is not None and not job.status.has_ended:
                report(job.step, job.done, job.total)
            remaining = deadline - time.monotonic()
            if job.status.has_ended or remaining <= 0:
                return job
            await asyncio.sleep(min(pause, remaining))
            pause = min(pause * 1.5, MAX_POLL_SECONDS)

    async def cancel(self, ref: Ref) -> Job:
        return await self._client.call(Job, "POST", f"/jobs/{ref}/cancel")

    async def retry(self, ref: Ref) -> Job:
        return await self._client.call(Job, "POST", f"/jobs/{ref}/retry")

    async def retry_all(self, status: JobStatus = JobStatus.FAILED) -> RetryResult:
        return await self._client.call(
            RetryResult, "POST", "/jobs/retry", json={"status": status.value}, timeout=LONG_TIMEOUTS
        )

    # -- events ---------------------------------------------------------------------------------

    async def watch(self, after: int | None = None) -> AsyncGenerator[Event, None]:
        params = {} if after is None else {"after": str(after)}
        return parse_events(await self._client.open_stream("/events", params))

    # -- crawls ---------------------------------------------------------------------------------

    async def crawl(self, new: NewCrawl) -> Job:
        found = await self._client.call(
            wire.CrawlShape, "POST", "/crawls", json=wire.dump_new_crawl(new), idempotent=True
        )
        return found.job

    async def crawl_report(self, ref: Ref) -> Crawl:
        found = await self._client.call(wire.CrawlShape, "GET", f"/crawls/{ref}", idempotent=True)
        return found.to_crawl()

    async def crawls(self, page: int = 1, per_page: int = 50) -> ResultPage[Crawl]:
        params = {"page": str(page), "per_page": str(per_page)}
        found = await self._client.call(wire.CrawlsShape, "GET", "/crawls", params=params, idempotent=True)
        return found.to_page()

    async def crawl_pages(
        self, ref: Ref, outcome: PageOutcome | None = None, page: int = 1, per_page: int = 50
    ) -> ResultPage[CrawledPage]:
        params = {"page": str(page), "per_page": str(per_page)}
        params |= {} if outcome is None else {"outcome": outcome.value}
        found = await self._client.call(
            wire.CrawlPagesShape, "GET", f"/crawls/{ref}/pages", params=params, idempotent=True
        )
        return found.to_page()

    # -- documents ------------------------------------------------------------------------------

    async def document(self, ref: Ref) -> Document:
        params = {"chunk_limit": "0"}
        found = await self._client.call(wire.DocumentShape, "GET", f"/documents/{ref}", params=params, idempotent=True)
        return found.to_document()

    async def documents(self, wanted: DocumentFilter) -> ResultPage[Document]:
        params = wire.dump_document_filter(wanted)
        found = await self._client.call(wire.DocumentsShape, "GET", "/documents", params=params, idempotent=True)
        return found.to_page()

    async def chunks(self, ref: Ref, offset: int = 0, limit: int | None = None) -> list[Chunk]:
        given = {"chunk_offset": offset or None, "chunk_limit": limit}
        params = {name: str(value) for name, value in given.items() if value is not None}
        found = await self._client.call(
            wire.DocumentWithChunksShape, "GET", f"/documents/{ref}", params=params, idempotent=True
        )
        return found.to_chunks()

    async def original(self, ref: Ref, start: int = 0, stop: int | None = None) -> Original:
        return Original(*await self._client.download_file(f"/documents/{ref}/file", start=start, stop=stop))

    async def edit(self, ref: Ref, edit: DocumentEdit) -> Document:
        moved = wire.dump_move(edit)
        if moved is not None and edit.expected is None:
            found = await self._client.call(
                wire.DocumentShape, "PUT", f"/documents/{ref}/tags", json=moved, idempotent=True
            )
            return found.to_document()
        body = wire.dump_document_edit(edit)
        found = await self._client.call(
            wire.DocumentShape, "PATCH", f"/documents/{ref}", json=body, expected=edit.expected
        )
        return found.to_document()

    async def remove(self, ref: Ref) -> RemovalResult:
        return await self._client.call(RemovalResult, "DELETE", f"/documents/{ref}")

    async def clear(self) -> RemovalResult:
        return await self._client.call(
            RemovalResult, "DELETE", "/documents", params={"confirm": "true"}, timeout=LONG_TIMEOUTS
        )

    # -- collections ----------------------------------------------------------------------------

    async def collections(self, page: int = 1, per_page: int = 50) -> ResultPage[Collection]:
        params = {"page": str(page), "per_page": str(per_page)}
        found = await self._client.call(wire.CollectionsShape, "GET", "/collections", params=params, idempotent=True)
        return found.to_page()

    async def collection(self, ref: CollectionRef) -> Collection:
        return await self._client.call(Collection, "GET", _collection_path(ref), idempotent=True)

    async def create_collection(self, new: NewCollection) -> Collection:
        body = wire.dump(new)
        return await self._client.call(Collection, "POST", "/collections", json=body, idempotent=True)

    async def edit_collection(self, ref: CollectionRef, edit: CollectionEdit) -> Collection:
        return await self._client.call(
            Collection, "PATCH", _collection_path(ref), json=wire.dump(edit, exclude_none=True)
        )

    async def remove_collection(self, ref: CollectionRef) -> RemovalResult:
        return await self._client.call(RemovalResult, "DELETE", _collection_path(ref), timeout=LONG_TIMEOUTS)

    # -- the engine itself ----------------------------------------------------------------------

    async def status(self) -> EngineStatus:
        found = await self._client.call(wire.StatusShape, "GET", "/status", idempotent=True)
        return found.to_status()

    async def check_ready(self) -> None:
        await self._client.call(wire.HealthShape, "GET", "/ready", idempotent=True)

    async def verify(self) -> list[Finding]:
        report = await self._client.call(wire.FindingsShape, "POST", "/verify", timeout=LONG_TIMEOUTS)
        return list(report.findings)

    async def reindex(self, model: str | None = None) -> None:
        body: Json | None = None if model is None else {"model": model}
        await self._client.call(object, "POST", "/reindex", json=body, timeout=LONG_TIMEOUTS)

    async def reread(self, start: bool = True) -> RereadStatus:
        method = "POST" if start else "GET"
        return await self._client.call(RereadStatus, method, "/reread", idempotent=True, timeout=LONG_TIMEOUTS)

    async def backup(self) -> Original:
        return Original(*await self._client.download_file("/backup", timeout=LONG_TIMEOUTS))


def _collection_path(ref: CollectionRef) -> str:
    return f"/collections/{quote(str(wire.dump_collection_ref(ref)), safe='')}"


def connect(url: str, key: str | None = None) -> RemoteEngine:
    """Make an engine for a URL; nothing is sent until the first verb."""
    return RemoteEngine(open_http_client(url, key))
