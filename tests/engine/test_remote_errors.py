"""Errors of a remote engine that is down, slow, not an engine, or refuses the key."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import RemoteEngine, connect
from knowledge.engine.remote.http import open_http_client
from knowledge.error_codes import ERRORS_BY_CODE
from knowledge.errors import (
    DeadlineExceeded,
    DocumentNotFound,
    Duplicate,
    EngineUnreachable,
    InvalidParameter,
    TooLarge,
    Unauthenticated,
)
from knowledge.model import Content, NewFile, NewNote, Query
from knowledge.surfaces.http.guard import wrap_in_guard
from knowledge.surfaces.rest import make_rest_app

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HTML = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<h1>Sorry</h1>\n"
OTHER_JSON = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"hello": 1}'
ACCEPTED = "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}"
NOT_FOUND = (
    '{"error": {"code": "document_not_found", "message": "gone", "hint": "look", "details": {"document_id": 7}}}'
)


@asynccontextmanager
async def serve_connections(handle: Handler) -> AsyncIterator[str]:
    """Run a TCP server on loopback that is not an engine."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def send_reply(reply: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()

    return handle


@asynccontextmanager
async def remote(url: str, key: str | None = None) -> AsyncIterator[RemoteEngine]:
    engine = connect(url, key)
    try:
        yield engine
    finally:
        await engine.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_the_error_for_an_engine_that_is_down_names_its_url() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with remote(url) as engine:
        with pytest.raises(EngineUnreachable, match=url) as raised:
            await engine.status()
    assert raised.value.details["url"] == url
    assert "KB_ENGINE_URL" in raised.value.hint


async def test_a_password_in_the_url_is_not_shown() -> None:
    async with remote(f"http://user:secret@127.0.0.1:{free_port()}") as engine:
        with pytest.raises(EngineUnreachable) as raised:
            await engine.status()
    assert "secret" not in f"{raised.value} {raised.value.hint} {raised.value.details}"


@pytest.mark.parametrize("reply", [HTML, OTHER_JSON, b"SSH-2.0-OpenSSH\r\n", b""])
async def test_another_server_at_the_url_is_not_an_engine(reply: bytes) -> None:
    async with serve_connections(send_reply(reply)) as url, remote(url) as engine:
        with pytest.raises(EngineUnreachable, match=url):
            await engine.job(1)


async def test_a_slow_engine_exceeds_the_deadline() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve_connections(silent) as url:
        http = open_http_client(url)
        engine = RemoteEngine(http)
        request = http.build_request
        http.build_request = lambda *given, **named: request(*given, **{**named, "timeout": 0.05})  # type: ignore[method-assign]
        with pytest.raises(DeadlineExceeded, match=url):
            await engine.job(1)
        await engine.close()


async def test_the_error_for_an_invalid_url_names_the_setting() -> None:
    with pytest.raises(InvalidParameter, match="not an http or https URL") as raised:
        connect("engine:8000")
    assert "KB_ENGINE_URL" in raised.value.hint


async def test_an_error_keeps_its_class_hint_and_details() -> None:
    reply = ACCEPTED.replace("{}", str(len(NOT_FOUND)), 1).replace("{}", NOT_FOUND).encode()
    async with serve_connections(send_reply(reply)) as url, remote(url) as engine:
        with pytest.raises(DocumentNotFound, match="gone") as raised:
            await engine.document(7)
    assert (raised.value.hint, raised.value.details) == ("look", {"document_id": 7})


async def test_an_add_is_repeated_after_a_network_error_and_happens_once(local: LocalEngine) -> None:
    lossy = LossyTransport(httpx.ASGITransport(app=make_rest_app(local)), losses=1)
    async with httpx.AsyncClient(transport=lossy, base_url="http://127.0.0.1") as http:
        job = await RemoteEngine(http).add(NewFile(filename="tea.txt", content=Content.from_bytes(b"tea at noon")))
    assert lossy.seen == 2
    ended = await local.wait(job.id, 20)
    assert ended.status == "completed"
    assert (await local.status()).documents == 1


async def test_a_request_that_is_not_idempotent_is_not_repeated(local: LocalEngine) -> None:
    job = await local.add(NewNote(text="tea at noon"))
    await local.wait(job.id, 20)
    lossy = LossyTransport(httpx.ASGITransport(app=make_rest_app(local)), losses=1)
    async with httpx.AsyncClient(transport=lossy, base_url="http://127.0.0.1") as http:
        with pytest.raises(EngineUnreachable):
            await RemoteEngine(http).clear()
    assert lossy.seen == 1


async def test_a_request_is_repeated_only_once(local: LocalEngine) -> None:
    lossy = LossyTransport(httpx.ASGITransport(app=make_rest_app(local)), losses=9)
    async with httpx.AsyncClient(transport=lossy, base_url="http://127.0.0.1") as http:
        with pytest.raises(EngineUnreachable):
            await RemoteEngine(http).search(Query(text="tea"))
    assert lossy.seen == 2


class LossyTransport(httpx.AsyncBaseTransport):
    """A transport that delivers the request and loses the response."""

    def __init__(self, inner: httpx.AsyncBaseTransport, losses: int) -> None:
        self._inner, self._losses, self.seen = inner, losses, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen += 1
        response = await self._inner.handle_async_request(request)
        if self._losses:
            self._losses -= 1
            await response.aclose()
            raise httpx.ReadError("connection lost")
        return response


async def test_the_error_for_a_wrong_key_names_the_setting(local: LocalEngine, settings: Settings) -> None:
    closed = settings.model_copy(update={"api_key": _secret("right")})
    transport = httpx.ASGITransport(app=wrap_in_guard(make_rest_app(local), closed))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine:8000") as http:
        for key in (None, "wrong"):
            with pytest.raises(Unauthenticated) as raised:
                await RemoteEngine(http, key).status()
            assert "KB_API_KEY" in raised.value.hint
        assert (await RemoteEngine(http).with_key("right").status()).documents == 0


async def test_a_remote_engine_raises_the_same_errors_as_a_local_one(local: LocalEngine) -> None:
    transport = httpx.ASGITransport(app=make_rest_app(local, max_file_bytes=1 << 20))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine:8000") as http:
        engine = RemoteEngine(http)
        with pytest.raises(DocumentNotFound) as far:
            await engine.document(uuid4())
        assert far.value.details
        job = await engine.add(NewNote(text="tea at noon"))
        await engine.wait(job.id, 20)
        with pytest.raises(Duplicate) as twice:
            await engine.add(NewNote(text="tea at noon"))
        assert twice.value.details["document_id"]
        with pytest.raises(TooLarge):
            await engine.add(NewFile(filename="big.txt", content=Content.from_bytes(b"x" * (2 << 20))))


def _secret(text: str) -> object:
    from pydantic import SecretStr

    return SecretStr(text)


def test_every_error_class_has_a_unique_code() -> None:
    assert len({error.code for error in ERRORS_BY_CODE.values()}) == len(ERRORS_BY_CODE)
