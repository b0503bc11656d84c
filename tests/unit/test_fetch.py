"""The crawler's HTTP client: SSRF and DNS rebinding protection, timeouts and size limits."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from knowledge.engine.fetch.client import USER_AGENT, Fetcher, FetchTimeouts, check_url
from knowledge.engine.fetch.ssrf import AllowedHosts
from knowledge.errors import AddressForbidden, DeadlineExceeded, FetchFailed, InvalidParameter, TooLarge
from tests.support.web_site import SiteReply, WebSite, serve_site

MEGABYTE = 1 << 20


@pytest.fixture
def site() -> Iterator[WebSite]:
    with serve_site() as made:
        yield made


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(AllowedHosts.parse("127.0.0.1"), FetchTimeouts(connect=1, read=1, total=2)) as made:
        yield made


async def test_a_page_comes_with_its_status_and_headers(site: WebSite, fetcher: Fetcher) -> None:
    site.pages["/tea"] = SiteReply("tea", headers={"ETag": '"one"'})
    fetched = await fetcher.get(f"{site.url}/tea", MEGABYTE)
    assert (fetched.status, fetched.body, fetched.headers["etag"]) == (200, b"tea", '"one"')
    assert fetched.content_type == "text/html"


async def test_every_request_carries_the_user_agent(site: WebSite, fetcher: Fetcher) -> None:
    await fetcher.get(site.url, MEGABYTE)
    assert site.requests[0].headers["user-agent"] == USER_AGENT
    assert USER_AGENT.startswith("KnowledgeServer/")


async def test_redirects_are_returned_and_not_followed(site: WebSite, fetcher: Fetcher) -> None:
    site.pages["/old"] = SiteReply("", 301, {"Location": "../new"})
    fetched = await fetcher.get(f"{site.url}/old", MEGABYTE)
    assert fetched.location == f"{site.url}/new"
    assert len(site.requests) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]"])
async def test_a_forbidden_address_is_never_connected_to(site: WebSite, host: str) -> None:
    async with Fetcher(AllowedHosts()) as fetcher:
        with pytest.raises(AddressForbidden):
            await fetcher.get(f"http://{host}:{site.port}/", MEGABYTE)
    assert site.requests == []


@pytest.mark.requirement("002.crawler.rebinding")
async def test_dns_rebinding_does_not_reach_a_private_address(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first lookup returns a public address and a second one would return loopback; only one lookup happens."""
    answers = iter(["93.184.216.34", "127.0.0.1"])
    looked_up: list[str] = []
    real = asyncio.get_running_loop().getaddrinfo

    async def rebinding(host: str, port: int, **rest: Any) -> list[Any]:
        if host != "rebind.example":
            return await real(host, port, **rest)
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebinding)
    async with Fetcher(AllowedHosts(), FetchTimeouts(connect=0.5, read=0.5, total=1)) as fetcher:
        with pytest.raises((FetchFailed, DeadlineExceeded)):
            await fetcher.get(f"http://rebind.example:{site.port}/", MEGABYTE)
    assert looked_up == ["rebind.example"]
    assert site.requests == []


async def test_a_body_with_a_content_length_over_the_limit_is_not_read(site: WebSite, fetcher: Fetcher) -> None:
    site.pages["/large"] = SiteReply(b"x" * 2000)
    with pytest.raises(TooLarge, match="larger than"):
        await fetcher.get(f"{site.url}/large", 1000)


async def test_an_endless_body_is_cut_off(fetcher: Fetcher) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(endless, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TooLarge):
            await fetcher.get(f"http://127.0.0.1:{port}/", 100_000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw", "x-gzip"])
async def test_compressed_bodies_are_decompressed(site: WebSite, fetcher: Fetcher, encoding: str) -> None:
    text = b"tea in the kitchen " * 50
    packed = gzip.compress(text) if "gzip" in encoding else zlib.compress(text)
    packed = packed[2:-4] if encoding == "raw" else packed
    site.pages["/"] = SiteReply(packed, headers={"Content-Encoding": encoding.replace("raw", "deflate")})
    assert (await fetcher.get(f"{site.url}/", MEGABYTE)).body == text


async def test_a_decompression_bomb_is_refused_before_it_fills_the_memory(site: WebSite, fetcher: Fetcher) -> None:
    bomb = gzip.compress(b"\0" * (100 * MEGABYTE), 5)
    site.pages["/bomb"] = SiteReply(bomb, headers={"Content-Encoding": "gzip"})
    with pytest.raises(TooLarge, match="Decompressed size exceeds"):
        await fetcher.get(f"{site.url}/bomb", 20 * MEGABYTE)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
async def test_an_unsupported_content_encoding_is_refused(site: WebSite, fetcher: Fetcher, encoding: str) -> None:
    site.pages["/"] = SiteReply(b"abc", headers={"Content-Encoding": encoding})
    with pytest.raises(FetchFailed, match="Unsupported Content-Encoding"):
        await fetcher.get(f"{site.url}/", MEGABYTE)


async def test_broken_compression_fails_the_request(site: WebSite, fetcher: Fetcher) -> None:
    site.pages["/"] = SiteReply(b"this is not gzip", headers={"Content-Encoding": "gzip"})
    with pytest.raises(FetchFailed, match="broken"):
        await fetcher.get(f"{site.url}/", MEGABYTE)


async def test_a_server_that_never_answers_hits_the_read_timeout(fetcher: Fetcher) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DeadlineExceeded):
            await fetcher.get(f"http://127.0.0.1:{port}/", MEGABYTE)


async def test_a_server_that_sends_byte_by_byte_hits_the_total_timeout() -> None:
    async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with (
        await asyncio.start_server(dripping, "127.0.0.1", 0) as server,
        Fetcher(AllowedHosts.parse("127.0.0.1"), FetchTimeouts(connect=1, read=1, total=0.5)) as fetcher,
    ):
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DeadlineExceeded, match="longer than"):
            await fetcher.get(f"http://127.0.0.1:{port}/", MEGABYTE)


@pytest.mark.parametrize("sent", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"])
async def test_an_invalid_http_response_fails_the_request(fetcher: Fetcher, sent: bytes) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    async with await asyncio.start_server(broken, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(FetchFailed):
            await fetcher.get(f"http://127.0.0.1:{port}/", MEGABYTE)


async def test_a_closed_port_fails_the_request(site: WebSite, fetcher: Fetcher) -> None:
    port = site.port
    site.close()
    with pytest.raises(FetchFailed, match="could not be reached"):
        await fetcher.get(f"http://127.0.0.1:{port}/", MEGABYTE)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "javascript:alert(1)", "data:text/html,x",
        "http://", "http:///path", "example.com", "http://user:secret@example.com/", "http://user@example.com/",
        "http://example.com:99999/", "http://exa mple.com/", "http://example.com/\r\nX: y", "http://[::1", "",
        "http://example.com/" + "a" * 3000,
    ],
)  # fmt: skip
def test_a_url_that_is_not_plain_http_is_refused(url: str) -> None:
    with pytest.raises(InvalidParameter, match="Invalid URL"):
        check_url(url)


def test_the_error_for_a_url_with_credentials_does_not_repeat_the_password() -> None:
    with pytest.raises(InvalidParameter) as refused:
        check_url("http://user:secret@example.com/")
    assert "secret" not in str(refused.value)
