"""Timeouts and limits of connections, with a real server and slow clients (slowloris)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import websockets
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from knowledge.config import Settings
from knowledge.surfaces.http.connections import ConnectionLimits
from knowledge.surfaces.http.server import HttpServer, make_server, open_sockets

LIMIT = 20.0
SHORT_SECONDS = 0.6
QUICK = ConnectionLimits(header_s=SHORT_SECONDS, body_s=SHORT_SECONDS, keep_alive_s=1, write_s=SHORT_SECONDS)


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


async def length(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def refuse(request: Request) -> Response:
    return PlainTextResponse("no", 401)


async def stream(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first\n"
        await asyncio.sleep(4 * SHORT_SECONDS)
        yield b"last\n"

    return StreamingResponse(pieces())


async def flood(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536
            await asyncio.sleep(0)

    return StreamingResponse(pieces())


async def echo(socket: WebSocket) -> None:
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text)


APP = Starlette(
    routes=[
        Route("/", hello),
        Route("/length", length, methods=["POST"]),
        Route("/refuse", refuse, methods=["POST"]),
        Route("/stream", stream),
        Route("/flood", flood),
        WebSocketRoute("/echo", echo),
    ]
)


class Client:
    """A raw TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, sent: bytes) -> bytes:
        """Send bytes and return the complete response."""
        self.writer.write(sent)
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), LIMIT)
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return head + await asyncio.wait_for(self.reader.readexactly(size), LIMIT)

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), LIMIT)
        except ConnectionError:
            return b""

    async def drip(self, piece: bytes, pause: float = 0.1) -> float:
        """Send a piece repeatedly; return the seconds until the server closes the connection."""
        started = time.monotonic()
        async with asyncio.timeout(LIMIT):
            while not self.reader.at_eof():
                try:
                    self.writer.write(piece)
                    await self.writer.drain()
                    await asyncio.wait_for(self.reader.read(1000), pause)
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
        return time.monotonic() - started


class Running:
    """A running server and its clients."""

    def __init__(self, port: int, server: HttpServer) -> None:
        self.port, self.server, self.url = port, server, f"http://127.0.0.1:{port}"
        self._clients: list[Client] = []

    async def client(self, source: str = "127.0.0.1") -> Client:
        opened = Client(*await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0)))
        self._clients.append(opened)
        return opened

    async def count(self, wanted: int) -> None:
        """Wait until the server has this number of connections."""
        async with asyncio.timeout(LIMIT):
            while len(self.server.connections) != wanted:
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()
        self.server.stop()


@asynccontextmanager
async def serve(limits: ConnectionLimits) -> AsyncIterator[Running]:
    sockets = open_sockets("127.0.0.1", 0)
    server = make_server(APP, limits)
    server.config.timeout_graceful_shutdown = 1
    task = asyncio.create_task(server.serve(sockets=sockets))
    running = Running(sockets[0].getsockname()[1], server)
    try:
        yield running
    finally:
        await running.close()
        await asyncio.wait_for(task, LIMIT)


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_slow_headers_are_cut_off_at_the_deadline() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        client.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert SHORT_SECONDS * 0.9 < await client.drip(b"a") < LIMIT / 2


async def test_a_connection_that_sends_nothing_is_closed_at_the_same_deadline() -> None:
    async with serve(QUICK) as running:
        assert await (await running.client()).rest() == b""


async def test_the_second_request_of_a_connection_has_the_deadline_too() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        assert b"hello" in await client.ask(GET)
        client.writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
        assert await client.drip(b"a") < LIMIT / 2


async def test_a_stalled_body_gets_408_and_the_connection_is_closed() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        client.writer.write(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 408 ")
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert "request body timed out" in error["message"] and "KNOWLEDGE_BODY_TIMEOUT_S" in error["hint"]


async def test_a_body_below_the_minimum_rate_is_cut_off() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        client.writer.write(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        assert await client.drip(b"a") < LIMIT / 2


async def test_a_long_upload_succeeds_while_it_makes_progress() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        client.writer.write(b"POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(SHORT_SECONDS / 4)
            client.writer.write(b"a" * 2000)
        assert (await client.rest()).endswith(b"20000")


async def test_an_unread_body_does_not_hold_the_connection() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        assert b"401" in await client.ask(b"POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        assert await client.drip(b"a") < LIMIT / 2


async def test_an_idle_connection_is_closed_after_the_keep_alive_time() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        await client.ask(GET)
        started = time.monotonic()
        assert await client.rest() == b""
        assert 0.9 < time.monotonic() - started < LIMIT / 2


async def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    async with serve(QUICK) as running:
        client = await running.client()
        client.writer.write(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        await running.count(1)
        await running.count(0)


async def test_streams_and_websockets_outlive_every_deadline_and_count_as_connections() -> None:
    async with serve(QUICK) as running, httpx.AsyncClient(timeout=LIMIT) as http:
        async with websockets.connect(f"ws://127.0.0.1:{running.port}/echo") as socket:
            streamed = await http.get(f"{running.url}/stream")
            assert streamed.text == "first\nlast\n"
            await socket.send("still here")
            assert await socket.recv() == "still here"
            assert len(running.server.connections) >= 1
        await running.count(0)


async def test_at_the_limit_a_new_connection_evicts_an_idle_one() -> None:
    async with serve(ConnectionLimits(total=8, per_address=4)) as running:
        silent = [await running.client() for _ in range(4)]
        assert b"hello" in await (await running.client()).ask(GET)
        assert await silent[0].rest() == b""
        for client in silent[1:]:
            assert b"hello" in await client.ask(GET)
        assert len(running.server.connections) == 4


async def test_one_address_cannot_evict_the_streams_of_another() -> None:
    async with serve(ConnectionLimits(total=8, per_address=4)) as running, httpx.AsyncClient() as http:
        held = [await running.client("127.0.0.2") for _ in range(4)]
        for client in held:
            client.writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(client.reader.readuntil(b"first"), LIMIT)
        refused = await (await running.client("127.0.0.2")).rest()
        assert refused.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in refused
        assert (await http.get(f"{running.url}/")).text == "hello"
        for client in held:
            assert b"last" in await asyncio.wait_for(client.reader.readuntil(b"last"), LIMIT)


async def test_a_trusted_proxy_is_exempt_from_the_limit_per_address() -> None:
    settings = Settings.model_validate(
        {"trusted_proxies": "127.0.0.2", "max_connections": 8, "max_connections_per_address": 2}
    )
    limits = ConnectionLimits.from_settings(settings, 1024)
    assert (limits.total, limits.per_address) == (8, 2)
    async with serve(limits) as running:
        proxied = [await running.client("127.0.0.2") for _ in range(6)]
        for client in proxied:
            assert b"hello" in await client.ask(GET)
        assert len(running.server.connections) == 6


@pytest.mark.parametrize(
    ("descriptors", "total", "of_the_engine_file"), [(256, 112, 16), (1024, 672, 96), (65_536, 8750, 1250)]
)
def test_the_limit_leaves_descriptors_for_everything_else(
    descriptors: int, total: int, of_the_engine_file: int
) -> None:
    settings = Settings.model_validate({})
    limits = ConnectionLimits.from_settings(settings, descriptors)
    assert (limits.total, limits.per_address) == (total, total // 2)
    assert ConnectionLimits.from_settings(settings, descriptors, for_engine_file=True).total == of_the_engine_file
