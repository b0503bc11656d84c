"""HTTP client of the crawler: SSRF-checked connections, timeouts and size limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import httpcore

from knowledge.engine.fetch.bodies import ByteLimit, read_body
from knowledge.engine.fetch.ssrf import AllowedHosts, resolve_allowed
from knowledge.errors import DeadlineExceeded, FetchFailed, InvalidParameter
from knowledge.model.crawls import MAX_URL_CHARS
from knowledge.version import __version__


@dataclass(frozen=True, slots=True)
class FetchTimeouts:
    """Timeouts of one request in seconds."""

    connect: float = 10.0
    read: float = 20.0
    """Longest pause between two reads."""
    total: float = 60.0
    """From the DNS lookup to the last byte of the body."""


class CheckedNetworkBackend(httpcore.AsyncNetworkBackend):
    """Protects against DNS rebinding by connecting to the IP address that was checked, without a second lookup."""

    def __init__(self, allowed: AllowedHosts) -> None:
        self._allowed = allowed
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await resolve_allowed(host, port, self._allowed):
            try:
                return await self._backend.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


PRODUCT_TOKEN = "KnowledgeServer"
USER_AGENT = f"{PRODUCT_TOKEN}/{__version__} (crawler; honours robots.txt)"
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})

DEFAULT_HEADERS = {
    "User-Agent": USER_AGENT,
    "Accept": "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.9,application/pdf;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Accept-Language": "en;q=0.9, *;q=0.5",
}


@dataclass(frozen=True, slots=True)
class FetchResponse:
    url: str
    status: int
    headers: Mapping[str, str]
    """Lower-case names; repeated headers are joined with commas."""
    body: bytes = field(repr=False)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def location(self) -> str | None:
        """The absolute URL of a redirect target."""
        if self.status not in REDIRECT_STATUSES or "location" not in self.headers:
            return None
        return urljoin(self.url, self.headers["location"].strip())


class Fetcher:
    """Sends single requests and follows no redirects, since the caller has to check each target URL."""

    def __init__(self, allowed: AllowedHosts, timeouts: FetchTimeouts | None = None) -> None:
        self._timeouts, self._allowed = timeouts or FetchTimeouts(), allowed
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is not None:
            await self._pool.aclose()

    async def get(self, url: str, max_bytes: int, headers: Mapping[str, str] | None = None) -> FetchResponse:
        """Send one GET; raise TooLarge for a body over `max_bytes`, compressed or decompressed."""
        return await self._request("GET", url, max_bytes, headers)

    async def head(self, url: str) -> FetchResponse:
        return await self._request("HEAD", url, 0, None)

    async def _request(self, method: str, url: str, max_bytes: int, headers: Mapping[str, str] | None) -> FetchResponse:
        host = check_url(url)
        try:
            async with asyncio.timeout(self._timeouts.total):
                return await self._send(method, url, max_bytes, {**DEFAULT_HEADERS, **(headers or {})})
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"The request took longer than {self._timeouts.total:g} seconds", hint="Try again later.", url=url
            ) from error
        except httpcore.TimeoutException as error:
            raise DeadlineExceeded(f"The request to {host} timed out", hint="Try again later.", url=url) from error
        except httpcore.NetworkError as error:
            raise FetchFailed(f"{host} could not be reached: {error or 'connection closed'}", url=url) from error
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError) as error:
            raise FetchFailed(f"{host} sent an invalid HTTP response", url=url) from error

    def _open_pool(self) -> httpcore.AsyncConnectionPool:
        if self._pool is None:  # opened on first use, because loading the CA certificates would delay every start
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=httpcore.default_ssl_context(),
                max_connections=32,
                max_keepalive_connections=8,
                keepalive_expiry=15.0,
                network_backend=CheckedNetworkBackend(self._allowed),
            )
        return self._pool

    async def _send(self, method: str, url: str, max_bytes: int, headers: dict[str, str]) -> FetchResponse:
        seconds = self._timeouts
        timeout = {"connect": seconds.connect, "read": seconds.read, "write": seconds.read, "pool": seconds.total}
        sent = list(headers.items())
        async with self._open_pool().stream(method, url, headers=sent, extensions={"timeout": timeout}) as response:
            found = _merge_headers(response.headers)
            announced = found.get("content-length", "")
            if method == "HEAD" or response.status in (204, 304) or response.status in REDIRECT_STATUSES:
                return FetchResponse(url, response.status, found, b"")
            if announced.isdecimal() and int(announced[:18]) > max_bytes:
                raise ByteLimit(max_bytes, url).make_error()
            body = await read_body(response.aiter_stream(), found.get("content-encoding", ""), max_bytes, url)
            return FetchResponse(url, response.status, found, body)


def check_url(url: str) -> str:
    """Return the host of a URL; raise InvalidParameter unless it is http or https, without credentials, and short."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _invalid_url(url, "cannot be parsed") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _invalid_url(url, "must start with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise _invalid_url(url.rpartition("@")[2], "must not contain a user name or password")
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise _invalid_url(url, f"is longer than {MAX_URL_CHARS} characters or contains invalid characters")
    return host


def _invalid_url(url: str, problem: str) -> InvalidParameter:
    return InvalidParameter(
        f"Invalid URL: '{url[:200]}' {problem}", hint="Provide a fully qualified http or https URL.", parameter="url"
    )


def _merge_headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found
