"""A real server on a real port: binding, graceful shutdown, and the request log."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import connect
from knowledge.errors import NotNow, TooLarge, Unavailable
from knowledge.model import Content, NewFile
from knowledge.surfaces.http.logs import JsonFormatter, RequestLog, TextFormatter
from knowledge.surfaces.http.server import HttpServer, ServerAddress, make_server, open_sockets, wrap_in_guard_and_log
from knowledge.surfaces.rest import make_rest_app

LIMIT = 10.0
MEGABYTES = 32


@asynccontextmanager
async def serve(app: ASGIApp) -> AsyncIterator[tuple[str, HttpServer, asyncio.Task[None]]]:
    sockets = open_sockets("127.0.0.1", 0)
    server = make_server(app, signals=True)
    task = asyncio.create_task(server.serve(sockets=sockets))
    try:
        yield ServerAddress("127.0.0.1", sockets[0].getsockname()[1]).url, server, task
    finally:
        server.stop()
        await asyncio.wait_for(task, LIMIT)


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


async def test_port_0_picks_a_free_port_before_the_first_request() -> None:
    async with serve(Starlette(routes=[Route("/", hello)])) as (url, _, _), httpx.AsyncClient() as http:
        assert not url.endswith(":0")
        assert (await http.get(url)).text == "hello"


def test_a_port_in_use_is_reported_with_a_hint() -> None:
    sockets = open_sockets("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    try:
        with pytest.raises(Unavailable, match=f"127.0.0.1 port {port}") as raised:
            open_sockets("127.0.0.1", port)
        assert "--port" in raised.value.hint
    finally:
        sockets[0].close()


def test_an_unknown_host_is_reported() -> None:
    with pytest.raises(Unavailable, match=r"no-such-host\.invalid"):
        open_sockets("no-such-host.invalid", 0)


def test_an_ipv6_address_has_brackets_in_the_url() -> None:
    assert ServerAddress("::1", 8000).url == "http://[::1]:8000"


@pytest.mark.skipif(sys.platform == "win32", reason="There a signal cannot be sent to oneself.")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_signal_finishes_running_requests(number: signal.Signals) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        begun.set()
        await go_on.wait()
        return PlainTextResponse("finished")

    async with serve(Starlette(routes=[Route("/", slow)])) as (url, server, task), httpx.AsyncClient() as http:
        answer = asyncio.create_task(http.get(url))
        await asyncio.wait_for(begun.wait(), LIMIT)
        signal.raise_signal(number)
        assert server.should_exit
        go_on.set()
        assert (await asyncio.wait_for(answer, LIMIT)).text == "finished"
        await asyncio.wait_for(task, LIMIT)


async def test_a_too_large_file_gets_a_response_and_not_a_closed_connection(local: LocalEngine) -> None:
    big = Content(_megabytes)
    async with serve(make_rest_app(local, max_file_bytes=1 << 20)) as (url, _, _):
        engine = connect(url)
        with pytest.raises(TooLarge, match="larger than"):
            await engine.add(NewFile(filename="big.txt", content=big))
        assert (await engine.status()).documents == 0
        await engine.close()


async def test_a_large_file_is_streamed_and_not_held_in_memory(local: LocalEngine) -> None:
    async with serve(make_rest_app(local)) as (url, _, _):
        engine = connect(url)
        tracemalloc.start()
        try:
            job = await engine.add(NewFile(filename="big.txt", content=Content(_megabytes)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < MEGABYTES << 19  # less than half of it, on both sides together
        with suppress(NotNow):
            await engine.cancel(job.id)
        await engine.close()


async def _megabytes() -> AsyncIterator[bytes]:
    for _ in range(MEGABYTES):
        yield b"tea with milk at four \n" * 45590


async def test_a_request_is_logged_in_one_line_without_query_and_key(caplog: pytest.LogCaptureFixture) -> None:
    app = wrap_in_guard_and_log(Starlette(routes=[Route("/{path:path}", hello)]), Settings.model_validate({}))
    with caplog.at_level(logging.INFO, "knowledge"):
        async with serve(app) as (url, _, _), httpx.AsyncClient() as http:
            await http.get(f"{url}/a%0Ab?question=secret", headers={"Authorization": "Bearer secret"})
    lines = [record for record in caplog.records if record.name == "knowledge.request"]
    assert len(lines) == 1
    text = TextFormatter().format(lines[0])
    assert "method=GET path=/a%0Ab status=404 ms=" in text
    assert text.endswith("caller=local")
    assert "secret" not in text
    entry = json.loads(JsonFormatter().format(lines[0]))
    assert (entry["status"], entry["path"], entry["caller"]) == (404, "/a%0Ab", "local")


async def test_a_crash_is_logged_and_not_shown_in_the_response(caplog: pytest.LogCaptureFixture) -> None:
    async def crash(request: Request) -> Response:
        raise RuntimeError("the inner workings")

    async with serve(RequestLog(Starlette(routes=[Route("/", crash)]))) as (url, _, _), httpx.AsyncClient() as http:
        answer = await http.get(url)
    assert answer.status_code == 500
    assert "inner workings" not in answer.text
    assert "inner workings" in caplog.text


def test_log_injection_is_prevented() -> None:
    record = logging.LogRecord("knowledge.x", logging.INFO, "", 0, "two\nlines", (), None)
    record.facts = {"name": "a\r\nb"}
    assert "\n" not in TextFormatter().format(record)
    assert "\n" not in JsonFormatter().format(record)


def test_all_loggers_write_to_stderr_in_one_format(capsys: pytest.CaptureFixture[str]) -> None:
    from knowledge.surfaces.http import logs

    root, noisy = logging.getLogger(), logging.getLogger("uvicorn.error")
    before, level = root.handlers[:], root.level
    try:
        logs.configure_logging(Settings.model_validate({"log_json": True, "log_level": "warning"}))
        logging.getLogger("knowledge.request").info("not shown")
        logging.getLogger("knowledge.job").warning("shown", extra={"facts": {"job": 7}})
        noisy.info("Started server process")
        noisy.warning("heard")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        logging.getLogger("knowledge").setLevel(logging.NOTSET)
    captured = capsys.readouterr()
    assert captured.out == ""
    entries = [json.loads(line) for line in captured.err.splitlines()]
    assert [(entry["level"], entry["message"], entry.get("job")) for entry in entries] == [
        ("warning", "shown", 7),
        ("warning", "heard", None),
    ]
