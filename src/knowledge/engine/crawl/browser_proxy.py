"""A forward proxy that applies the SSRF guard to every request of the rendering browser."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from knowledge.engine.fetch.ssrf import AllowedHosts, resolve_allowed
from knowledge.errors import Invalid, KnowledgeError

MAX_HEAD_BYTES = 64 << 10
CONNECT_SECONDS = 15.0
READ_CHUNK_BYTES = 1 << 16
HOP_BY_HOP_HEADERS = ("proxy-", "connection:", "keep-alive:")


class BrowserProxy:
    """A proxy on loopback for rendering one page; relays at most three times the maximum page size."""

    def __init__(self, allowed: AllowedHosts, max_page_bytes: int) -> None:
        self._allowed, self._remaining_bytes = allowed, 3 * max_page_bytes
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve_connection, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                host, port, request, answer = parse_request_head(head)
                address = (await resolve_allowed(host, port, self._allowed))[0]
                site_reader, site_writer = await asyncio.open_connection(str(address), port)
            try:
                writer.write(answer)
                site_writer.write(request)
                await self._relay(reader, site_writer, site_reader, writer)
            finally:
                site_writer.close()
        except KnowledgeError:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        site_writer: asyncio.StreamWriter,
        site_reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Copy both directions until the site closes its side."""
        upload = asyncio.create_task(self._copy_stream(reader, site_writer))
        try:
            await self._copy_stream(site_reader, writer)
        finally:
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)

    async def _copy_stream(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while self._remaining_bytes > 0 and (piece := await source.read(READ_CHUNK_BYTES)):
            self._remaining_bytes -= len(piece)
            target.write(piece)
            await target.drain()


def parse_request_head(head: bytes) -> tuple[str, int, bytes, bytes]:
    """Parse a proxy request into host, port, the bytes to send to the site first, and the answer to the browser."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        raise Invalid("Malformed proxy request line")
    method, target, version = words
    if method == "CONNECT":
        host, _, port = target.rpartition(":")
        return host.strip("[]"), _parse_port(port), b"", b"HTTP/1.1 200 Connection established\r\n\r\n"
    parts = urlsplit(target)
    if parts.scheme != "http" or not parts.hostname or "@" in parts.netloc:
        raise Invalid("The proxy forwards only http and https URLs without credentials")
    headers = [line for line in lines[1:] if line and not line.lower().startswith(HOP_BY_HOP_HEADERS)]
    path = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    request = "\r\n".join([f"{method} {path} {version}", *headers, "Connection: close", "", ""])
    return parts.hostname, parts.port or 80, request.encode("latin-1"), b""


def _parse_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:6]) < 65536:
        raise Invalid(f"Invalid port: {text[:10]!r}")
    return int(text)
