"""HTTP client for a remote engine: connection pool, timeouts, one retry of idempotent requests, error mapping."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import IO, TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from knowledge.errors import (
    DeadlineExceeded,
    EngineUnreachable,
    ExpiredKey,
    InvalidParameter,
    KnowledgeError,
    SessionEnded,
    Unauthenticated,
    WrongPassword,
)
from knowledge.model import Content, Json, NewFile
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX
from knowledge.wire import dump_file_fields, load_error, load_json
from knowledge.wire.sessions import SESSION_HEADER

if TYPE_CHECKING:  # importing httpx is slow, and a process with a local engine does not need it
    import httpx

T = TypeVar("T")

API_PREFIX = "/api/v1"
Timeouts: TypeAlias = tuple[float, float, float, float]
"""Seconds for connect, read, write and a free connection of the pool."""
DEFAULT_TIMEOUTS: Timeouts = (5.0, 60.0, 60.0, 30.0)
LONG_TIMEOUTS: Timeouts = (5.0, 3600.0, 3600.0, 30.0)
"""For requests that read or write all documents."""
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

_FILENAME = re.compile(r"filename\*=UTF-8''([^;]+)")


def open_http_client(url: str, key: str | None = None) -> httpx.AsyncClient:
    import httpx

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidParameter(
            f"'{url}' is not an http or https URL of an engine",
            hint="Set KB_ENGINE_URL to a URL like http://engine:8000.",
            parameter="engine_url",
        )
    # HTTP_PROXY must not apply between two processes of one machine.
    trust_env = parts.hostname not in LOOPBACK_HOSTS
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if parts.hostname in LOOPBACK_HOSTS:
        headers["Accept-Encoding"] = "identity"  # compression would only take time
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30.0)
    return httpx.AsyncClient(
        base_url=url.rstrip("/"), headers=headers, timeout=DEFAULT_TIMEOUTS, limits=limits, trust_env=trust_env
    )


class EngineClient:
    def __init__(self, http: httpx.AsyncClient, key: str | None = None, session: str | None = None) -> None:
        """Without a key requests carry the server's own; a session is sent beside it, for the engine to verify."""
        self._http = http
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._headers |= {SESSION_HEADER: session} if session else {}
        self._has_account_key = key is not None and key.startswith(ACCOUNT_KEY_PREFIX)

    async def call(
        self,
        shape: type[T],
        method: str,
        path: str,
        *,
        json: Json | None = None,
        params: Mapping[str, str] | None = None,
        timeout: Timeouts = DEFAULT_TIMEOUTS,
        idempotent: bool = False,
        expected: str | None = None,
    ) -> T:
        """Send a request and return the response as `shape`; an idempotent one is repeated once on a network error.

        `expected` is the revision of the document, sent as If-Match.
        """
        headers = {**self._headers, **({} if expected is None else {"If-Match": f'"{expected}"'})}

        def request() -> httpx.Request:
            return self._http.build_request(
                method, API_PREFIX + path, json=json, params=params, headers=headers, timeout=timeout
            )

        return self._load_response(shape, await self._send_with_retry(request, again=idempotent))

    async def send(self, method: str, path: str, *, json: Json | None = None) -> None:
        """Send a request whose response has no body."""

        def request() -> httpx.Request:
            return self._http.build_request(method, API_PREFIX + path, json=json, headers=self._headers)

        response = await self._send_with_retry(request, again=False)
        if not response.is_success:
            raise self._make_response_error(response)

    async def upload_file(self, shape: type[T], path: str, new: NewFile) -> T:
        """Upload a file with its fields; it is spooled to disk to be sent again after a network error."""
        fields = dump_file_fields(new)
        async with _spool_content(new.content) as file:

            def request() -> httpx.Request:
                file.seek(0)
                sent = {"file": (new.filename or "file", file, "application/octet-stream")}
                return self._http.build_request(
                    "POST", API_PREFIX + path, data=fields, files=sent, headers=self._headers
                )

            return self._load_response(shape, await self._send_with_retry(request, again=True))

    async def read_content(self, path: str, params: Mapping[str, str], media_type: str) -> tuple[bytes, str]:
        """Return the content of a small file and its entity tag."""

        def request() -> httpx.Request:
            return self._http.build_request("GET", API_PREFIX + path, params=params, headers=self._headers)

        response = await self._send_with_retry(request, again=True)
        if not response.is_success or response.headers.get("content-type") != media_type:
            raise self._make_response_error(response)
        return response.content, response.headers.get("etag", "").strip('"')

    async def download_file(
        self, path: str, timeout: Timeouts = DEFAULT_TIMEOUTS, *, start: int = 0, stop: int | None = None
    ) -> tuple[str, int, AsyncIterator[bytes], str]:
        """Return name, size, content and entity tag of a file; the content, or a range of it, is streamed."""
        ranged = {} if start == 0 and stop is None else {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"}

        def request() -> httpx.Request:
            headers = {**self._headers, **ranged}
            return self._http.build_request("GET", API_PREFIX + path, headers=headers, timeout=timeout)

        response = await self._send_with_retry(request, again=True, stream=True)
        name = _FILENAME.search(response.headers.get("content-disposition", ""))
        size = response.headers.get("content-range", response.headers.get("content-length", "")).rpartition("/")[2]
        if response.is_error or name is None or not size.isdecimal():
            async with aclosing(response):
                await response.aread()
            raise self._make_response_error(response)
        etag = response.headers.get("etag", "").strip('"')
        return unquote(name[1]), int(size), self._iter_body(response), etag

    async def open_stream(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[str, None]:
        """Return the lines of a response while they arrive."""

        def request() -> httpx.Request:
            return self._http.build_request("GET", API_PREFIX + path, params=params, headers=self._headers)

        response = await self._send_with_retry(request, again=True, stream=True)
        if response.is_error:
            async with aclosing(response):
                await response.aread()
            raise self._make_response_error(response)
        return self._iter_lines(response)

    async def _iter_lines(self, response: httpx.Response) -> AsyncGenerator[str, None]:
        import httpx

        async with aclosing(response):
            try:
                async for line in response.aiter_lines():
                    yield line
            except httpx.HTTPError as error:
                raise self._make_transport_error(error) from error

    async def _iter_body(self, response: httpx.Response) -> AsyncIterator[bytes]:
        import httpx

        async with aclosing(response):
            try:
                async for piece in response.aiter_bytes():
                    yield piece
            except httpx.HTTPError as error:
                raise self._make_transport_error(error) from error

    async def _send_with_retry(
        self, request: Callable[[], httpx.Request], *, again: bool, stream: bool = False
    ) -> httpx.Response:
        import httpx

        try:
            return await self._http.send(request(), stream=stream)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            repeatable = again and isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
            if not repeatable:
                raise self._make_transport_error(error) from error
        try:
            return await self._http.send(request(), stream=stream)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._make_transport_error(error) from error

    def _load_response(self, shape: type[T], response: httpx.Response) -> T:
        if not response.is_success:
            raise self._make_response_error(response)
        try:
            return load_json(shape, response.content)
        except ValueError as error:  # not a response of a Knowledge Server
            raise self._make_response_error(response) from error

    def _make_response_error(self, response: httpx.Response) -> KnowledgeError:
        """Return the error that the engine raised, or EngineUnreachable if something else answered."""
        try:
            error = load_error(response.status_code, response.json())
        except ValueError:
            error = None
        if isinstance(error, Unauthenticated) and self._concerns_server_key(error):
            error.hint = "Set KB_API_KEY to the key of the engine."
        if error is not None:
            return error
        content_type = response.headers.get("content-type", "no content type").partition(";")[0]
        return EngineUnreachable(
            f"{self._url} is not a Knowledge Server engine: it answered with status {response.status_code}, "
            f"{content_type}",
            hint="Correct KB_ENGINE_URL, and check for a proxy in between or another version of the server.",
            url=self._url,
            status=response.status_code,
        )

    def _concerns_server_key(self, error: Unauthenticated) -> bool:
        """Return whether the error is about KB_API_KEY, and not about an account's key or password."""
        return not self._has_account_key and not isinstance(error, ExpiredKey | WrongPassword | SessionEnded)

    def _make_transport_error(self, error: Exception) -> KnowledgeError:
        import httpx

        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            return DeadlineExceeded(
                f"The request to the engine at {self._url} timed out",
                hint="Try again; the engine may be busy.",
                url=self._url,
            )
        return EngineUnreachable(f"The engine at {self._url} is unreachable", url=self._url)

    @property
    def _url(self) -> str:
        return str(self._http.base_url.copy_with(username=None, password=None)).rstrip("/")


@asynccontextmanager
async def _spool_content(content: Content) -> AsyncIterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        async for piece in content.pieces:
            await asyncio.to_thread(file.write, piece)
        file.flush()
        yield file
