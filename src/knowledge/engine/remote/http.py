"""The line to an engine elsewhere: one pooled client, a limit on every step, and every failure in words."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import IO, TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from knowledge.errors import (
    DeadlineExceeded,
    EngineUnreachable,
    ExpiredKey,
    InvalidParameter,
    KnowledgeError,
    Unauthenticated,
    WrongPassword,
)
from knowledge.model import Content, Json, NewFile
from knowledge.model.accounts import ACCOUNT_KEY
from knowledge.wire import dump_file_fields, load_error

if TYPE_CHECKING:  # a process that is the engine itself need not pay for the client
    import httpx

S = TypeVar("S")
T = TypeVar("T")

PREFIX = "/api/v1"
Seconds: TypeAlias = tuple[float, float, float, float]
"""How long to wait for a connection, for bytes to come, for bytes to go, and for a place among the connections."""
USUAL: Seconds = (5.0, 60.0, 60.0, 30.0)
LONG: Seconds = (5.0, 3600.0, 3600.0, 30.0)
"""For what looks at every passage there is."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")

_FILENAME = re.compile(r"filename\*=UTF-8''([^;]+)")


def open_http(url: str, key: str | None = None) -> httpx.AsyncClient:
    import httpx

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidParameter(
            f"'{url}' is not the address of an engine",
            hint="Set KB_ENGINE_URL to something like http://engine:8000.",
            parameter="engine_url",
        )
    # A proxy set for the wide world must not come between two processes of one machine.
    outside = parts.hostname not in LOOPBACK
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30.0)
    return httpx.AsyncClient(base_url=url.rstrip("/"), headers=headers, timeout=USUAL, limits=limits, trust_env=outside)


class Line:
    def __init__(self, http: httpx.AsyncClient, key: str | None = None) -> None:
        self._http = http
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._is_an_accounts = key is not None and key.startswith(ACCOUNT_KEY)

    async def ask(
        self,
        load: Callable[[S], T],
        method: str,
        path: str,
        *,
        json: Json | None = None,
        params: Mapping[str, str] | None = None,
        timeout: Seconds = USUAL,
        again: bool = False,
    ) -> T:
        """One call and its answer as a noun; `again` says that to send it twice does no harm."""

        def request() -> httpx.Request:
            return self._http.build_request(
                method, PREFIX + path, json=json, params=params, headers=self._headers, timeout=timeout
            )

        return self._read(load, await self._send(request, again=again))

    async def upload(self, load: Callable[[S], T], path: str, new: NewFile) -> T:
        """A file with its fields. It lies on disk meanwhile, so that it can be sent again if the line breaks."""
        fields = dump_file_fields(new)
        async with _kept(new.content) as file:

            def request() -> httpx.Request:
                file.seek(0)
                sent = {"file": (new.filename or "file", file, "application/octet-stream")}
                return self._http.build_request("POST", PREFIX + path, data=fields, files=sent, headers=self._headers)

            return self._read(load, await self._send(request, again=True))

    async def fetch(self, path: str, timeout: Seconds = USUAL) -> tuple[str, int, AsyncIterator[bytes]]:
        """A file: its name, its size, and its bytes while they arrive."""

        def request() -> httpx.Request:
            return self._http.build_request("GET", PREFIX + path, headers=self._headers, timeout=timeout)

        response = await self._send(request, again=True, stream=True)
        name = _FILENAME.search(response.headers.get("content-disposition", ""))
        size = response.headers.get("content-length", "")
        if response.is_error or name is None or not size.isdecimal():
            async with aclosing(response):
                await response.aread()
            raise self._failure(response)
        return unquote(name[1]), int(size), self._pieces(response)

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        import httpx

        async with aclosing(response):
            try:
                async for piece in response.aiter_bytes():
                    yield piece
            except httpx.HTTPError as error:
                raise self._broken(error) from error

    async def _send(self, request: Callable[[], httpx.Request], *, again: bool, stream: bool = False) -> httpx.Response:
        import httpx

        try:
            return await self._http.send(request(), stream=stream)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            repeatable = again and isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
            if not repeatable:
                raise self._broken(error) from error
        try:
            return await self._http.send(request(), stream=stream)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._broken(error) from error

    def _read(self, load: Callable[[S], T], response: httpx.Response) -> T:
        if not response.is_success:
            raise self._failure(response)
        try:
            return load(response.json())
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # not an answer of ours
            raise self._failure(response) from error

    def _failure(self, response: httpx.Response) -> KnowledgeError:
        """The error that the engine raised, or who else may have answered."""
        try:
            error = load_error(response.status_code, response.json())
        except ValueError:
            error = None
        if isinstance(error, Unauthenticated) and self._asks_for_the_line(error):
            error.hint = "Set KB_API_KEY to the key of the engine."
        if error is not None:
            return error
        kind = response.headers.get("content-type", "nothing that it names").partition(";")[0]
        return EngineUnreachable(
            f"Something else than an engine answers at {self._url}: status {response.status_code}, {kind}",
            hint="Correct KB_ENGINE_URL; a proxy in between, or another version, may be what answers.",
            url=self._url,
            status=response.status_code,
        )

    def _asks_for_the_line(self, error: Unauthenticated) -> bool:
        """Whether it is our own key that is missing or wrong, and not one that a caller gave, or a password."""
        return not self._is_an_accounts and not isinstance(error, ExpiredKey | WrongPassword)

    def _broken(self, error: Exception) -> KnowledgeError:
        import httpx

        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            return DeadlineExceeded(
                f"The engine at {self._url} takes too long to answer",
                hint="Try again; the engine may be busy.",
                url=self._url,
            )
        return EngineUnreachable(f"The engine at {self._url} is unreachable", url=self._url)

    @property
    def _url(self) -> str:
        """Without the name and password that an address may hold."""
        return str(self._http.base_url.copy_with(username=None, password=None)).rstrip("/")


@asynccontextmanager
async def _kept(content: Content) -> AsyncIterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        async for piece in content.pieces:
            await asyncio.to_thread(file.write, piece)
        file.flush()
        yield file
